//! The examples of `docs/api.md`.

use serde_json::Value;

use crate::description::Description;
use crate::support::Cluster;
use crate::support::served::Served;

const DOCUMENT: &str = include_str!("../../../../docs/api.md");

/// What a `curl` of the document asks for.
struct Example {
    method: &'static str,
    path: String,
    order: Option<Value>,
}

impl Example {
    fn read(command: &str) -> Self {
        let (_, rest) = command.split_once("http://coppice").expect("an address");
        let (path, options) = rest.split_once([' ', '\n']).unwrap_or((rest, ""));
        let quoted = || options.split('\'').nth(1).expect("an order");
        let order = options.starts_with("--json").then(|| serde_json::from_str(quoted()).expect("JSON"));
        let method = match options.split(' ').next() {
            Some("--json" | "-X") => "POST",
            Some("-T") => "PUT",
            _ => "GET",
        };
        Self { method, path: path.trim_end_matches('"').to_owned(), order }
    }
}

/// Commands with what they print, from all blocks that show a console.
fn commands() -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    for block in DOCUMENT.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        let mut is_quoted = false;
        for line in block.lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.to_owned(), String::new())),
                (None, Some((command, _))) if is_quoted => *command += &format!("\n{line}"),
                (None, Some((_, printed))) => printed.push_str(line),
                (None, None) => panic!("{line}"),
            }
            is_quoted ^= line.matches('\'').count() % 2 == 1;
        }
    }
    commands
}

#[tokio::test]
async fn examples_are_requests_that_there_are_and_their_answers() {
    let served = Served::new(Cluster::up(1, 1));
    let description = Description::new(&served.client.description().await.expect("answered"));
    served.down().await;
    let mut examples = 0;
    for (command, printed) in commands().iter().filter(|(command, _)| command.contains("curl")) {
        let Example { method, path, order } = Example::read(command);
        let operation = description.operation(method, &path);
        if let Some(order) = &order {
            operation.check_order("application/json", Some(order));
        }
        if let Ok(printed) = serde_json::from_str::<Value>(printed) {
            let status = if printed.get("error").is_some() { 404 } else { 200 };
            operation.check_answer(status, "application/json", &[printed]);
        } else {
            assert_eq!(printed, "", "{command}");
        }
        examples += 1;
    }
    assert!(examples > 20, "{examples}");
    // Paths in the text, too.
    for path in DOCUMENT.split("`GET ").skip(1).filter_map(|rest| rest.split('`').next()) {
        if !path.starts_with('…') {
            description.operation("GET", path);
        }
    }
}
