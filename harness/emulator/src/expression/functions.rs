//! Functions and operators that expressions may call: their names, what they take, and what they
//! give. Of some it is known only that they are there.

use super::kind::Kind;

const QUANTITY: Kind = Kind::Named("kubernetes.Quantity");
const SEMVER: Kind = Kind::Named("kubernetes.Semver");
const ADDRESS: Kind = Kind::Named("net.IP");
const RANGE: Kind = Kind::Named("net.CIDR");
const URL: Kind = Kind::Named("kubernetes.URL");

/// A kind that takes part in a function, whatever is in it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Part {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    List,
    Map,
    Quantity,
}

use Part::{Bool, Bytes, Double, Duration, Int, List, Map, Quantity, Text, Timestamp, Uint};

/// What functions take, first of which they are called: those in all of whose forms.
const TAKEN: &[(&str, &[&[Part]])] = &[
    ("contains", &[&[Text, Text]]),
    ("endsWith", &[&[Text, Text]]),
    ("startsWith", &[&[Text, Text]]),
    ("matches", &[&[Text, Text]]),
    ("size", &[&[Text], &[Bytes], &[List], &[Map]]),
    ("int", &[&[Int], &[Uint], &[Double], &[Text], &[Timestamp], &[Duration]]),
    ("uint", &[&[Int], &[Uint], &[Double], &[Text]]),
    ("double", &[&[Int], &[Uint], &[Double], &[Text]]),
    ("bool", &[&[Bool], &[Text]]),
    ("lowerAscii", &[&[Text]]),
    ("upperAscii", &[&[Text]]),
    ("trim", &[&[Text]]),
    ("charAt", &[&[Text, Int]]),
    ("substring", &[&[Text, Int], &[Text, Int, Int]]),
    ("split", &[&[Text, Text], &[Text, Text, Int]]),
    ("replace", &[&[Text, Text, Text], &[Text, Text, Text, Int]]),
    ("find", &[&[Text, Text]]),
    ("findAll", &[&[Text, Text], &[Text, Text, Int]]),
    ("isQuantity", &[&[Text]]),
    ("quantity", &[&[Text]]),
    ("isInteger", &[&[Quantity]]),
    ("asInteger", &[&[Quantity]]),
    ("asApproximateFloat", &[&[Quantity]]),
    ("isURL", &[&[Text]]),
    ("isIP", &[&[Text]]),
    ("isCIDR", &[&[Text]]),
];

/// Names of functions that give a truth, a number, a text.
const BOOLS: &[&str] = &[
    "allowed",
    "bool",
    "contains",
    "containsCIDR",
    "containsIP",
    "endsWith",
    "errored",
    "hasValue",
    "ip.isCanonical",
    "isCIDR",
    "isGlobalUnicast",
    "isGreaterThan",
    "isIP",
    "isInteger",
    "isLessThan",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isLoopback",
    "isQuantity",
    "isSemver",
    "isSorted",
    "isURL",
    "isUnspecified",
    "matches",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "startsWith",
];
const INTS: &[&str] = &[
    "asInteger",
    "compareTo",
    "family",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "indexOf",
    "int",
    "lastIndexOf",
    "major",
    "minor",
    "patch",
    "prefixLength",
    "sign",
    "size",
];
const TEXTS: &[&str] = &[
    "charAt",
    "error",
    "find",
    "format",
    "getEscapedPath",
    "getHost",
    "getHostname",
    "getPort",
    "getScheme",
    "join",
    "lowerAscii",
    "reason",
    "replace",
    "string",
    "strings.quote",
    "substring",
    "trim",
    "upperAscii",
];
/// Names of functions of whose values nothing is known.
const OTHERS: &[&str] = &[
    "add",
    "bytes",
    "check",
    "cidr",
    "distinct",
    "double",
    "duration",
    "dyn",
    "fieldSelector",
    "findAll",
    "first",
    "flatten",
    "format.dns1123Label",
    "format.dns1123LabelPrefix",
    "format.dns1123Subdomain",
    "format.dns1123SubdomainPrefix",
    "format.dns1035Label",
    "format.dns1035LabelPrefix",
    "format.qualifiedName",
    "format.labelValue",
    "format.uri",
    "format.uuid",
    "format.byte",
    "format.date",
    "format.datetime",
    "format.named",
    "getQuery",
    "group",
    "ip",
    "labelSelector",
    "last",
    "lists.range",
    "masked",
    "max",
    "min",
    "name",
    "namespace",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "or",
    "orValue",
    "path",
    "quantity",
    "resource",
    "reverse",
    "semver",
    "serviceAccount",
    "slice",
    "sort",
    "split",
    "sub",
    "subresource",
    "sum",
    "timestamp",
    "type",
    "uint",
    "unwrapOpt",
    "url",
    "validate",
    "value",
    "asApproximateFloat",
    "@not_strictly_false",
    "asDouble",
];

/// Whether there is a function of this name.
pub(super) fn is_known(name: &str) -> bool {
    [BOOLS, INTS, TEXTS, OTHERS].iter().any(|names| names.contains(&name))
}

/// What a function gives; `None`: it takes no such values.
pub(super) fn given(name: &str, taken: &[Kind]) -> Option<Kind> {
    let forms = TAKEN.iter().find(|(known, _)| *known == name).map(|(_, forms)| forms);
    let is_form = |form: &&&[Part]| {
        form.len() == taken.len() && form.iter().zip(taken).all(|(part, kind)| is(*part, kind))
    };
    if forms.is_some_and(|forms| !forms.iter().any(|form| is_form(&form))) {
        return None;
    }
    Some(match name {
        _ if BOOLS.contains(&name) => Kind::Bool,
        _ if INTS.contains(&name) => Kind::Int,
        _ if TEXTS.contains(&name) => Kind::Text,
        "double" | "asApproximateFloat" => Kind::Double,
        "uint" => Kind::Uint,
        "bytes" => Kind::Bytes,
        "duration" => Kind::Duration,
        "timestamp" => Kind::Timestamp,
        "split" | "findAll" => Kind::list(Kind::Text),
        "lists.range" => Kind::list(Kind::Int),
        "quantity" => QUANTITY,
        "semver" => SEMVER,
        "url" => URL,
        "ip" => ADDRESS,
        "cidr" | "masked" => RANGE,
        _ => Kind::Dyn,
    })
}

fn is(part: Part, kind: &Kind) -> bool {
    kind.is_open()
        || match part {
            Bool => *kind == Kind::Bool,
            Int => *kind == Kind::Int,
            Uint => *kind == Kind::Uint,
            Double => *kind == Kind::Double,
            Text => *kind == Kind::Text,
            Bytes => *kind == Kind::Bytes,
            Duration => *kind == Kind::Duration,
            Timestamp => *kind == Kind::Timestamp,
            List => matches!(kind, Kind::List(_)),
            Map => matches!(kind, Kind::Map(..)),
            Quantity => *kind == QUANTITY,
        }
}

/// What an operator gives; `None`: it takes no such values.
pub(super) fn operated(name: &str, taken: &[Kind]) -> Option<Kind> {
    match taken {
        [one] => prefixed(name, one),
        [one, other] => joined(name, one, other),
        [test, one, other] if Kind::Bool.fits(test) && one.fits(other) => {
            Some(if one.is_open() { other.clone() } else { one.clone() })
        }
        _ => None,
    }
}

fn prefixed(name: &str, one: &Kind) -> Option<Kind> {
    match (name, one) {
        ("!_", _) => Kind::Bool.fits(one).then_some(Kind::Bool),
        (_, Kind::Int | Kind::Double) => Some(one.clone()),
        _ => one.is_open().then_some(Kind::Dyn),
    }
}

fn joined(name: &str, one: &Kind, other: &Kind) -> Option<Kind> {
    let is_open = one.is_open() || other.is_open();
    match name {
        "_==_" | "_!=_" => one.fits(other).then_some(Kind::Bool),
        "_<_" | "_<=_" | "_>_" | "_>=_" => {
            let is_ordered = one.is_number() && other.is_number()
                || one == other
                    && matches!(
                        one,
                        Kind::Bool | Kind::Text | Kind::Bytes | Kind::Timestamp | Kind::Duration
                    );
            (is_open || is_ordered).then_some(Kind::Bool)
        }
        "@in" => {
            let holds = if let Kind::List(of) | Kind::Map(of, _) = other {
                of.fits(one)
            } else {
                other.is_open()
            };
            holds.then_some(Kind::Bool)
        }
        "_[_]" if !one.is_open() => item(one, other),
        _ if is_open => Some(Kind::Dyn),
        _ => reckoned(name, one, other),
    }
}

fn item(of: &Kind, key: &Kind) -> Option<Kind> {
    let (keys, found) = if let Kind::List(item) = of {
        (&Kind::Int, item)
    } else if let Kind::Map(keys, value) = of {
        (&**keys, value)
    } else {
        return None;
    };
    keys.fits(key).then(|| Kind::clone(found))
}

fn reckoned(name: &str, one: &Kind, other: &Kind) -> Option<Kind> {
    use Kind::{Bytes, Double, Duration, Int, List, Text, Timestamp, Uint};
    match (name, one, other) {
        ("_+_", List(_), List(_)) if one.fits(other) => Some(one.clone()),
        ("_+_" | "_-_", Duration, Duration) | ("_-_", Timestamp, Timestamp) => Some(Duration),
        ("_+_" | "_-_", Timestamp, Duration) | ("_+_", Duration, Timestamp) => Some(Timestamp),
        ("_+_", Text | Bytes | Int | Uint | Double, _)
        | ("_-_" | "_*_" | "_/_", Int | Uint | Double, _)
        | ("_%_", Int | Uint, _)
            if one == other =>
        {
            Some(one.clone())
        }
        _ => None,
    }
}
