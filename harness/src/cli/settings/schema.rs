//! The JSON Schema of `schedlab.toml`, for editors: its keys are the options of `schedlab run`.

use clap::{Arg, ArgAction};
use serde_json::{Map, Value, json};

use super::{Options, RUN, key_of};

/// The JSON Schema of the settings file.
pub fn settings_schema() -> Value {
    let command = crate::cli::command();
    let options = Options { command: &command, subcommand: RUN };
    let keys: Map<String, Value> =
        options.all().map(|arg| (key_of(arg).to_owned(), value_schema(arg))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "schedlab.toml",
        "description": "Defaults for the options of `schedlab run`.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "run": {"$ref": "#/$defs/options"},
            "profile": {
                "description": "Profiles by name, which `--profile NAME` selects.",
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/options"},
            },
        },
        "$defs": {
            "options": {"type": "object", "additionalProperties": false, "properties": keys},
        },
    })
}

/// The schema of the value of one option.
fn value_schema(arg: &Arg) -> Value {
    let one = single_value_schema(arg);
    let mut schema = if matches!(arg.get_action(), ArgAction::Append) {
        json!({"anyOf": [one, {"type": "array", "items": one}]})
    } else {
        one
    };
    if let Some(help) = arg.get_help() {
        schema["description"] = json!(help.to_string());
    }
    schema
}

fn single_value_schema(arg: &Arg) -> Value {
    if !arg.get_action().takes_values() {
        return json!({"type": "boolean"});
    }
    let allowed: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if !allowed.is_empty() {
        return json!({"enum": allowed});
    }
    // A number is also accepted as a text, as on the command line.
    json!({"type": ["string", "number"]})
}
