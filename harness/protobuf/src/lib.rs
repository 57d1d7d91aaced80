//! Decodes protobuf bodies, which Go clients send for built-in kinds, to JSON. Responses are never
//! protobuf: every Go client that prefers protobuf accepts JSON as well.

mod types;
mod wire;

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use schedlab_api::{Map, Value};

use types::{FieldType, JsonPlacement, Message, TimePrecision, Type};
use wire::{Field, FieldReader};

/// The prefix of every protobuf body.
const MAGIC: &[u8] = b"k8s\0";

/// Decodes a body: an envelope with apiVersion and kind around the object's message.
///
/// # Errors
///
/// The body is not protobuf, or is of a kind that is not built in.
pub fn decode_object(body: &[u8]) -> Result<Value, String> {
    let envelope = body.strip_prefix(MAGIC).ok_or_else(|| {
        format!("provided data does not appear to be a protobuf message, expected prefix {MAGIC:?}")
    })?;
    let (mut type_meta, mut raw): (&[u8], &[u8]) = (&[], &[]);
    for field in FieldReader::new(envelope) {
        match field? {
            (1, Field::Bytes(bytes)) => type_meta = bytes,
            (2, Field::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (mut api_version, mut kind) = ("", "");
    for field in FieldReader::new(type_meta) {
        match field? {
            (1, Field::Bytes(bytes)) => api_version = text(bytes)?,
            (2, Field::Bytes(bytes)) => kind = text(bytes)?,
            _ => {}
        }
    }
    let name = types::message_name(api_version, kind)
        .ok_or_else(|| format!("no kind \"{kind}\" is registered for version \"{api_version}\""))?;
    let mut object = message(raw, name, 0)?;
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion", api_version.into());
        fields.insert("kind", kind.into());
    }
    Ok(object)
}

/// Whether objects of a kind can be decoded.
pub fn is_known_kind(api_version: &str, kind: &str) -> bool {
    types::message_name(api_version, kind).is_some()
}

/// The media type of protobuf bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The nesting of messages that is decoded. Only schemas of custom resources are recursive.
const DEPTH_MAX: usize = 100;

/// Decodes a message inside `depth` others.
fn message(bytes: &[u8], name: &str, depth: usize) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err("exceeded max depth".to_owned());
    }
    let known = types::message(name).ok_or_else(|| format!("{name} is not known"))?;
    let mut json = Map::new();
    let mut maps: BTreeMap<&str, BTreeMap<String, Value>> = BTreeMap::new();
    let mut whole = None;
    for field in FieldReader::new(bytes) {
        let (number, field) = field?;
        let Some(of) = known.get(&number) else { continue };
        let value = |held: Option<Value>| value(field, &of.value_type, held, depth);
        match of.placement {
            JsonPlacement::Named(name) => {
                if let (Type::Map(of), Field::Bytes(entry)) = (&of.value_type, field) {
                    let (key, value) =
                        map_entry(entry, of, depth).map_err(|why| format!("{name}: {why}"))?;
                    maps.entry(name).or_default().insert(key, value);
                    continue;
                }
                let value = value(json.remove(name)).map_err(|why| format!("{name}: {why}"))?;
                if of.keeps_zero || !is_zero(&value) {
                    json.insert(name.to_owned(), value);
                }
            }
            JsonPlacement::Inline => {
                if let Value::Object(fields) = value(None)? {
                    json.extend(fields);
                }
            }
            JsonPlacement::WholeMessage => whole = Some(value(whole.take())?),
        }
    }
    json.extend(maps.into_iter().map(|(name, entries)| (name, Value::from_iter(entries))));
    Ok(whole.unwrap_or_else(|| empty_message(known, json)))
}

/// The value of a message without a whole-message field: an empty list if it represents a list.
fn empty_message(known: &Message, json: Map) -> Value {
    let stands_for_a_list = |field: &FieldType| {
        field.placement == JsonPlacement::WholeMessage && matches!(field.value_type, Type::List(_))
    };
    if known.values().any(stands_for_a_list) { Value::Array(Vec::new()) } else { json.into() }
}

/// Whether JSON omits the value of an optional field.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Decodes one occurrence of a field. `held` is the list or map of the earlier occurrences.
fn value(field: Field<'_>, of: &Type, held: Option<Value>, depth: usize) -> Result<Value, String> {
    Ok(match (of, field) {
        (Type::List(of), field) => {
            let mut items = match held {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            };
            items.push(value(field, of, None, depth)?);
            items.into()
        }
        (Type::Map(of), Field::Bytes(entry)) => {
            let mut entries = match held {
                Some(Value::Object(entries)) => entries,
                _ => Map::new(),
            };
            let (key, value) = map_entry(entry, of, depth)?;
            entries.insert(key, value);
            entries.into()
        }
        (Type::String, Field::Bytes(bytes)) => text(bytes)?.into(),
        (Type::Bool, Field::Number(number)) => (number != 0).into(),
        (Type::Integer, Field::Number(number)) => number.cast_signed().into(),
        (Type::Double, Field::Double(number)) => number.into(),
        (Type::Bytes, Field::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Type::Time(precision), Field::Bytes(bytes)) => time(bytes, *precision)?,
        (Type::Quantity, Field::Bytes(bytes)) => text(bytes_field(bytes, 1)?)?.into(),
        (Type::IntOrString, Field::Bytes(bytes)) => int_or_string(bytes)?,
        (Type::Raw, Field::Bytes(bytes)) => match bytes_field(bytes, 1)? {
            [] => Value::Null,
            json => serde_json::from_slice(json).map_err(|error| error.to_string())?,
        },
        (Type::Message(name), Field::Bytes(bytes)) => message(bytes, name, depth + 1)?,
        (of, field) => return Err(format!("{field:?} is no {of:?}")),
    })
}

fn map_entry(entry: &[u8], of: &Type, depth: usize) -> Result<(String, Value), String> {
    let (mut key, mut held) = ("", None);
    for field in FieldReader::new(entry) {
        match field? {
            (1, Field::Bytes(bytes)) => key = text(bytes)?,
            (2, field) => held = Some(value(field, of, None, depth)?),
            _ => {}
        }
    }
    // A zero value may be absent.
    let value = held.map_or_else(|| value(Field::Bytes(&[]), of, None, depth), Ok)?;
    Ok((key.to_owned(), value))
}

/// The bytes of a field of a message; empty if it is absent.
fn bytes_field(message: &[u8], number: u64) -> Result<&[u8], String> {
    let mut bytes: &[u8] = &[];
    for field in FieldReader::new(message) {
        if let (found, Field::Bytes(value)) = field?
            && found == number
        {
            bytes = value;
        }
    }
    Ok(bytes)
}

/// A time, encoded as seconds and nanoseconds; null for an empty message.
fn time(message: &[u8], precision: TimePrecision) -> Result<Value, String> {
    let (mut seconds, mut nanos) = (0, 0);
    for field in FieldReader::new(message) {
        match field? {
            (1, Field::Number(number)) => seconds = number.cast_signed(),
            (2, Field::Number(number)) => nanos = i32::try_from(number).unwrap_or(0),
            _ => {}
        }
    }
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let time = Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    Ok(precision.format(time).into())
}

fn int_or_string(message: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut words) = (false, 0, "");
    for field in FieldReader::new(message) {
        match field? {
            (1, Field::Number(kind)) => is_text = kind == 1,
            (2, Field::Number(value)) => number = value.cast_signed(),
            (3, Field::Bytes(bytes)) => words = text(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { words.into() } else { number.into() })
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use schedlab_api::json;

    use super::*;

    /// Field `number` with bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).unwrap();
        assert!(length < 128 && number < 16, "one byte each");
        [&[number << 3 | 2, length], bytes].concat()
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &type_meta), field(2, raw)].concat()
    }

    #[test]
    fn a_protobuf_pod_decodes_to_its_json() {
        let entry = |key: &str, value: &[u8]| [field(1, key.as_bytes()), field(2, value)].concat();
        let metadata = [
            field(1, b"p"),
            field(2, b""),
            field(8, b""),
            field(11, &entry("team", b"red")),
            field(11, &entry("zone", b"a")),
        ];
        let request = entry("cpu", &field(1, b"500m"));
        let container = [field(1, b"c"), field(2, b"i"), field(8, &field(2, &request))].concat();
        // terminationGracePeriodSeconds: 0, hostNetwork: false.
        let spec = [field(2, &container), vec![4 << 3, 0], vec![11 << 3, 0]].concat();
        let raw = [field(1, &metadata.concat()), field(2, &spec)].concat();
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "p", "labels": { "team": "red", "zone": "a" } },
            "spec": {
                "containers": [
                    { "name": "c", "image": "i", "resources": { "requests": { "cpu": "500m" } } }
                ],
                "terminationGracePeriodSeconds": 0,
            },
        });
        assert_eq!(decode_object(&body("v1", "Pod", &raw)), Ok(expected));
    }

    #[test]
    fn values_with_special_encodings_are_decoded() {
        let data = field(2, &[field(1, b"key"), field(2, &[0, 255])].concat());
        let secret = decode_object(&body("v1", "Secret", &data)).unwrap();
        assert_eq!(secret["data"], json!({ "key": "AP8=" }));
        let selector = field(3, &field(1, &[field(1, b"a"), field(2, b"b")].concat()));
        let half = field(1, &[vec![1 << 3, 1], field(3, b"50%")].concat());
        let spec = field(2, &[half, field(2, &selector)].concat());
        let budget = decode_object(&body("policy/v1", "PodDisruptionBudget", &spec)).unwrap();
        assert_eq!(budget["spec"]["minAvailable"], "50%");
    }

    /// 100 seconds and 1,000,999 nanoseconds, or 100 seconds.
    const TIMES: [&[u8]; 2] = [&[1 << 3, 100, 2 << 3, 0xa7, 0x8c, 0x3d], &[1 << 3, 100]];

    #[test]
    fn a_micro_time_has_six_fractional_digits() {
        let expected = ["1970-01-01T00:01:40.001000Z", "1970-01-01T00:01:40.000000Z"];
        for (time, expected) in TIMES.into_iter().zip(expected) {
            let spec = [field(3, time), field(4, time)].concat();
            let lease = decode_object(&body("coordination.k8s.io/v1", "Lease", &field(2, &spec)));
            let times = json!({ "acquireTime": expected, "renewTime": expected });
            assert_eq!(lease.unwrap()["spec"], times);
            let series = field(11, &field(2, time));
            let event =
                decode_object(&body("v1", "Event", &[field(10, time), series].concat())).unwrap();
            assert_eq!(event["eventTime"], expected);
            assert_eq!(event["series"]["lastObservedTime"], expected);
            let series = field(3, &[vec![1 << 3, 2], field(2, time)].concat());
            let raw = [field(2, time), series].concat();
            let event = decode_object(&body("events.k8s.io/v1", "Event", &raw)).unwrap();
            assert_eq!(event["eventTime"], expected);
            assert_eq!(event["series"]["lastObservedTime"], expected);
        }
    }

    #[test]
    fn a_time_has_whole_seconds() {
        for time in TIMES {
            let pod = decode_object(&body("v1", "Pod", &field(1, &field(8, time)))).unwrap();
            assert_eq!(pod["metadata"]["creationTimestamp"], "1970-01-01T00:01:40Z");
        }
    }

    #[test]
    fn inline_messages_are_flattened() {
        let volume = [field(1, b"v"), field(2, &field(2, &[]))].concat();
        let raw = field(2, &field(1, &volume));
        let pod = decode_object(&body("v1", "Pod", &raw)).unwrap();
        assert_eq!(pod["spec"]["volumes"], json!([{ "name": "v", "emptyDir": {} }]));
    }

    #[test]
    fn invalid_protobuf_bodies_are_refused() {
        let not = |body: &[u8]| decode_object(body).unwrap_err();
        assert!(not(b"{}").contains("does not appear to be a protobuf message"));
        let refused = not(&body("example.com/v1", "Thing", b""));
        assert_eq!(refused, "no kind \"Thing\" is registered for version \"example.com/v1\"");
        assert_eq!(not(&body("v1", "Pod", &[0x0a, 9])), "unexpected EOF");
        assert!(not(&body("v1", "Pod", &[0x08, 1])).starts_with("metadata: "));
    }

    #[test]
    fn nested_messages_and_unsorted_maps_are_decoded_within_limits() {
        // A message in the field `not`, whose number is 28.
        let outer = |inner: Vec<u8>| {
            let length = u32::try_from(inner.len()).unwrap();
            let low = |shift: u32| u8::try_from(length >> shift & 0x7f).unwrap();
            [&[0xe2, 0x01, low(0) | 0x80, low(7) | 0x80, low(14)], &*inner].concat()
        };
        let nested = |depth: usize| (0..depth).fold(Vec::new(), |inner, _| outer(inner));
        assert!(message(&nested(50), "apiextensions.JSONSchemaProps", 0).is_ok());
        let refused = message(&nested(5_000), "apiextensions.JSONSchemaProps", 0).unwrap_err();
        assert!(refused.ends_with("exceeded max depth"), "{refused}");
    }
}
