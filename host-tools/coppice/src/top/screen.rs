//! What `top` shows and what keys do to that. Nothing here draws or asks anybody: keys and what was seen go in, and
//! what is to be done comes out.

use std::collections::BTreeMap;

use coppice_api::overlay::OverlayState;
use coppice_api::signal;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::fetch::Seen;
use super::lists::{Jobs, Nodes, OfJob};
use super::log::Log;
use super::ranks::Ranks;
use super::table::{Listing, Table};

/// Rows that page keys go by, about a screen's.
const PAGE_ROWS: isize = 15;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Jobs,
    Nodes,
    Job(u64),
    Rank(u64, u32),
    Node(u32),
    Log(u64),
    Help,
}

/// What is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// What rows are to have in them.
    Filter,
    /// A signal for a job.
    Signal(u64, String),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    Quit,
    /// Send a job a signal.
    Signal(u64, u8),
    /// Begin a job's overlay, or end it.
    Overlay(u64, bool),
}

/// See this module.
pub(super) struct Screen {
    /// What was looked at before is below.
    views: Vec<View>,
    pub(super) seen: Option<Seen>,
    /// Since when the service node does not answer, ns since 1970, and why.
    pub(super) trouble: Option<(u64, String)>,
    pub(super) ranks: BTreeMap<u64, Ranks>,
    pub(super) jobs: Table,
    pub(super) nodes: Table,
    pub(super) of_job: Table,
    pub(super) input: Option<Input>,
    /// What came of the last thing that was done.
    pub(super) note: Option<String>,
    pub(super) log: Log,
}

impl Screen {
    /// All jobs, or one of them.
    pub(super) fn new(job: Option<u64>) -> Self {
        Self {
            views: std::iter::once(View::Jobs).chain(job.map(View::Job)).collect(),
            seen: None,
            trouble: None,
            ranks: BTreeMap::new(),
            jobs: Table::by(0, true),
            nodes: Table::by(0, false),
            of_job: Table::by(0, false),
            input: None,
            note: None,
            log: Log::default(),
        }
    }

    /// What is looked at.
    pub(super) fn view(&self) -> View {
        self.views.last().copied().unwrap_or(View::Jobs)
    }

    /// What is looked at, and before it what was.
    pub(super) fn views(&self) -> &[View] {
        &self.views
    }

    /// What rows that are shown have in them.
    pub(super) fn filter(&self) -> &str {
        match self.view() {
            View::Jobs => &self.jobs.filter,
            View::Nodes => &self.nodes.filter,
            _ => &self.of_job.filter,
        }
    }

    /// The job that is looked at.
    pub(super) fn job(&self) -> Option<u64> {
        self.views.iter().rev().find_map(|view| match view {
            View::Job(job) | View::Rank(job, _) | View::Log(job) => Some(*job),
            View::Jobs | View::Nodes | View::Node(_) | View::Help => None,
        })
    }

    /// The job whose log is looked at.
    pub(super) fn log_of(&self) -> Option<u64> {
        if let View::Log(job) = self.view() { Some(job) } else { None }
    }

    /// Takes what was seen, or why nothing was.
    pub(super) fn take(&mut self, seen: Result<Seen, String>, now_ns: u64) {
        match seen {
            Ok(seen) => {
                self.trouble = None;
                self.ranks.retain(|job, _| seen.overlays.contains_key(job));
                for (job, overlay) in &seen.overlays {
                    self.ranks.entry(*job).or_default().take(overlay);
                }
                self.seen = Some(seen);
            }
            Err(why) => {
                let since_ns = self.trouble.take().map_or(now_ns, |(since_ns, _)| since_ns);
                self.trouble = Some((since_ns, why));
            }
        }
    }

    /// Does something with the list that is on the screen, if there is one.
    fn with_list<T>(&mut self, what: impl FnOnce(&mut Table, &dyn Listing) -> T) -> Option<T> {
        let seen = self.seen.as_ref()?;
        match self.views.last()? {
            View::Jobs => Some(what(&mut self.jobs, &Jobs(seen))),
            View::Nodes => Some(what(&mut self.nodes, &Nodes(seen))),
            View::Job(job) => {
                let detail = seen.job.as_ref().filter(|detail| detail.job.job == *job)?;
                Some(what(&mut self.of_job, &OfJob::new(detail, self.ranks.get(job))))
            }
            View::Rank(..) | View::Node(_) | View::Log(_) | View::Help => None,
        }
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Action::Quit;
        }
        if let Some(input) = self.input.take() {
            return self.typed(input, key.code);
        }
        self.note = None;
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left | KeyCode::Char('h') => self.back(),
            KeyCode::Char('?') | KeyCode::F(1) if self.view() != View::Help => self.views.push(View::Help),
            KeyCode::Tab | KeyCode::BackTab => {
                let other = if self.views.first() == Some(&View::Jobs) { View::Nodes } else { View::Jobs };
                self.views = vec![other];
            }
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-PAGE_ROWS),
            KeyCode::PageDown => self.step(PAGE_ROWS),
            KeyCode::Home | KeyCode::Char('g') => self.step(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX),
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') => self.look_into(),
            KeyCode::Char('s') => drop(self.with_list(|table, listing| table.sort_next(listing))),
            KeyCode::Char('r') => drop(self.with_list(|table, _| table.is_reversed = !table.is_reversed)),
            KeyCode::Char('/') if self.with_list(|_, _| ()).is_some() => self.input = Some(Input::Filter),
            KeyCode::Char('K') => match self.chosen_job() {
                Some(job) => self.input = Some(Input::Signal(job, "TERM".to_owned())),
                None => self.note = Some("choose a job first".to_owned()),
            },
            KeyCode::Char('L') => match self.chosen_job() {
                Some(job) if self.log_of().is_none() => self.views.push(View::Log(job)),
                _ => {}
            },
            KeyCode::Char('o') => return self.overlay(),
            _ => {}
        }
        Action::Nothing
    }

    /// Whatever is typed into a line at the bottom.
    fn typed(&mut self, input: Input, code: KeyCode) -> Action {
        match (input, code) {
            (Input::Filter, KeyCode::Enter) => {}
            (Input::Filter, KeyCode::Esc) => drop(self.with_list(|table, _| table.filter.clear())),
            (Input::Filter, code) => {
                self.with_list(|table, _| edit(&mut table.filter, code));
                self.input = Some(Input::Filter);
            }
            (Input::Signal(..), KeyCode::Esc) => {}
            (Input::Signal(job, text), KeyCode::Enter) => match signal::parse(&text) {
                Some(signal) => return Action::Signal(job, signal),
                None => self.note = Some(format!("'{text}' is no signal: give one such as TERM, KILL or 9")),
            },
            (Input::Signal(job, mut text), code) => {
                edit(&mut text, code);
                self.input = Some(Input::Signal(job, text));
            }
        }
        Action::Nothing
    }

    fn back(&mut self) {
        let is_filtered = self.with_list(|table, _| !std::mem::take(&mut table.filter).is_empty());
        if is_filtered != Some(true) && self.views.len() > 1 {
            self.views.pop();
        }
    }

    fn step(&mut self, by: isize) {
        if self.log_of().is_some() {
            self.log.scroll(by);
        } else {
            self.with_list(|table, listing| table.step(listing, by));
        }
    }

    fn look_into(&mut self) {
        let selected = self.with_list(|table, _| table.selected).flatten();
        let into = match (self.view(), selected) {
            (View::Jobs, Some(job)) => View::Job(job),
            (View::Nodes, Some(node)) => View::Node(node as u32),
            (View::Job(job), Some(rank)) => View::Rank(job, rank as u32),
            _ => return,
        };
        if matches!(into, View::Job(_)) {
            self.of_job = Table::by(self.of_job.column, self.of_job.is_reversed);
        }
        self.views.push(into);
    }

    /// The job that is looked at, or that is selected, or that the selected node has.
    fn chosen_job(&mut self) -> Option<u64> {
        let view = self.view();
        let selected = self.with_list(|table, _| table.selected).flatten();
        let job_of = |seen: &Seen, id: u32| seen.nodes.iter().find(|node| node.node == id).and_then(|node| node.job);
        match view {
            View::Jobs => selected,
            View::Nodes => self.seen.as_ref().and_then(|seen| job_of(seen, selected? as u32)),
            View::Node(node) => self.seen.as_ref().and_then(|seen| job_of(seen, node)),
            View::Job(_) | View::Rank(..) | View::Log(_) | View::Help => self.job(),
        }
    }

    fn overlay(&mut self) -> Action {
        let Some(job) = self.chosen_job() else { return Action::Nothing };
        let known = self.seen.as_ref().and_then(|seen| seen.overlays.get(&job));
        let is_off = known.is_none_or(|overlay| overlay.state == OverlayState::Off);
        Action::Overlay(job, is_off)
    }
}

/// A key that is pressed in a line of text.
fn edit(text: &mut String, code: KeyCode) {
    /// Longest text that is typed.
    const CHARACTERS_MAX: usize = 64;
    match code {
        KeyCode::Char(character) if text.chars().count() < CHARACTERS_MAX => text.push(character),
        KeyCode::Backspace => drop(text.pop()),
        _ => {}
    }
}
