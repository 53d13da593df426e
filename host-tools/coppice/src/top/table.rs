//! Lists of which a part is on the screen: sorted by one of their columns, filtered, with a row that is selected and
//! stays so wherever it moves.

use std::cmp::Ordering;

/// What rows are sorted by.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Key {
    Number(f64),
    Text(String),
}

impl Key {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        }
    }
}

/// What a list has in it.
pub(super) trait Listing {
    /// What columns are called.
    fn heading(&self) -> &'static [&'static str];
    /// How many rows there are.
    fn len(&self) -> usize;
    /// What tells a row from others.
    fn id(&self, row: usize) -> u64;
    /// What a row is sorted by, if it is by this column.
    fn key(&self, row: usize, column: usize) -> Key;
    /// What is shown of it.
    fn cells(&self, row: usize) -> Vec<String>;
}

/// How a list is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// The column that it is sorted by.
    pub(super) column: usize,
    pub(super) is_reversed: bool,
    /// Rows are shown that have this in them; whether letters are capital makes no difference.
    pub(super) filter: String,
    /// The row that is selected.
    pub(super) selected: Option<u64>,
    /// Where that is among those that are shown, as they were last; and the first one on the screen.
    place: usize,
    first: usize,
}

/// Part of a list, as it is on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) rows: Vec<Vec<String>>,
    /// Which of these is selected.
    pub(super) selected: Option<usize>,
    /// How many rows there are with those that are not on the screen.
    pub(super) all: usize,
}

impl Table {
    /// One that is sorted by that column, largest first if it is reversed.
    pub(super) fn by(column: usize, is_reversed: bool) -> Self {
        Self { column, is_reversed, ..Self::default() }
    }

    /// Rows that are shown, in order.
    fn order(&self, listing: &dyn Listing) -> Vec<usize> {
        let filter = self.filter.to_lowercase();
        let is_shown = |row: &usize| {
            filter.is_empty() || listing.cells(*row).iter().any(|cell| cell.to_lowercase().contains(&filter))
        };
        let mut rows: Vec<(Key, usize)> =
            (0..listing.len()).filter(is_shown).map(|row| (listing.key(row, self.column), row)).collect();
        rows.sort_by(|(one, _), (other, _)| if self.is_reversed { other.compare(one) } else { one.compare(other) });
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// What is on a screen with room for so many rows.
    pub(super) fn page(&mut self, listing: &dyn Listing, height: usize) -> Page {
        let order = self.order(listing);
        let found = self.selected.and_then(|id| order.iter().position(|row| listing.id(*row) == id));
        // One that is gone leaves its place to whoever is there now.
        self.place = found.unwrap_or(self.place).min(order.len().saturating_sub(1));
        self.selected = order.get(self.place).map(|row| listing.id(*row));
        self.first = self.first.min(self.place).max((self.place + 1).saturating_sub(height));
        self.first = self.first.min(order.len().saturating_sub(height));
        let shown = order.iter().skip(self.first).take(height);
        let selected = self.selected.and(self.place.checked_sub(self.first));
        Page { rows: shown.map(|row| listing.cells(*row)).collect(), selected, all: order.len() }
    }

    /// Selects the row that is so many further down, or up.
    pub(super) fn step(&mut self, listing: &dyn Listing, by: isize) {
        let order = self.order(listing);
        let found = self.selected.and_then(|id| order.iter().position(|row| listing.id(*row) == id));
        let place = found.unwrap_or(self.place).saturating_add_signed(by);
        self.place = place.min(order.len().saturating_sub(1));
        self.selected = order.get(self.place).map(|row| listing.id(*row));
    }

    /// Sorts by the next column.
    pub(super) fn sort_next(&mut self, listing: &dyn Listing) {
        self.column = (self.column + 1) % listing.heading().len().max(1);
        self.is_reversed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Listing, Page, Table};

    struct Numbers(Vec<u64>);

    impl Listing for Numbers {
        fn heading(&self) -> &'static [&'static str] {
            &["NUMBER", "DIGIT"]
        }
        fn len(&self) -> usize {
            self.0.len()
        }
        fn id(&self, row: usize) -> u64 {
            self.0[row]
        }
        fn key(&self, row: usize, column: usize) -> Key {
            if column == 0 { Key::Number(self.0[row] as f64) } else { Key::Text((self.0[row] % 10).to_string()) }
        }
        fn cells(&self, row: usize) -> Vec<String> {
            vec![format!("n{}", self.0[row])]
        }
    }

    fn shown(page: &Page) -> Vec<&str> {
        page.rows.iter().map(|row| row[0].as_str()).collect()
    }

    #[test]
    fn what_is_selected_stays_so_wherever_it_moves() {
        let mut table = Table::by(0, false);
        let mut numbers = Numbers(vec![30, 21, 12]);
        assert_eq!((shown(&table.page(&numbers, 9)), table.selected), (vec!["n12", "n21", "n30"], Some(12)));
        table.step(&numbers, 1);
        table.sort_next(&numbers);
        let page = table.page(&numbers, 9);
        assert_eq!((shown(&page), page.selected), (vec!["n30", "n21", "n12"], Some(1)));
        numbers.0.push(40);
        assert_eq!(table.page(&numbers, 9).selected, Some(2));
        table.is_reversed = true;
        assert_eq!(shown(&table.page(&numbers, 9)), ["n12", "n21", "n30", "n40"]);
        // It is gone: another one is where it was.
        numbers.0.retain(|number| *number != 21);
        assert_eq!((table.page(&numbers, 9).selected, table.selected), (Some(1), Some(30)));
    }

    #[test]
    fn what_is_selected_is_on_the_screen() {
        let numbers = Numbers((0..100).collect());
        let mut table = Table::by(0, false);
        for (by, first, selected) in [(5, "n3", 2), (1000, "n97", 2), (-1, "n97", 1), (-5, "n93", 0), (-1000, "n0", 0)]
        {
            table.step(&numbers, by);
            let page = table.page(&numbers, 3);
            assert_eq!((shown(&page)[0], page.selected, page.all), (first, Some(selected), 100), "{by}");
        }
        // With more room there is nothing empty below the last one.
        table.step(&numbers, 1000);
        assert_eq!(shown(&table.page(&numbers, 40))[0], "n60");
        assert_eq!(table.page(&numbers, 0).rows.len(), 0);
    }

    #[test]
    fn rows_may_be_left_out() {
        let numbers = Numbers((0..100).collect());
        let mut table = Table { filter: "N9".into(), ..Table::by(0, true) };
        let page = table.page(&numbers, 3);
        assert_eq!((shown(&page), page.all), (vec!["n99", "n98", "n97"], 11));
        table.filter = "nothing".into();
        let page = table.page(&numbers, 3);
        assert_eq!((page.rows.len(), page.selected, table.selected), (0, None, None));
        table.step(&numbers, 1);
    }
}
