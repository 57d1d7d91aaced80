//! In which form a client wants its answer.

use crate::error::ApiError;

/// The form of an answer. What a server does not speak (protobuf) is passed over for the next
/// thing in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Accept {
    pub(super) encoding: Encoding,
    pub(super) shape: Shape,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    #[default]
    Json,
    /// JSON for people: `?pretty=true`.
    Pretty,
    Yaml,
}

impl Encoding {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::Pretty => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Shape {
    /// The objects themselves.
    #[default]
    Plain,
    /// `meta.k8s.io` `Table`, with its version.
    Table(&'static str),
    /// Only an object's metadata.
    PartialMetadata,
    /// Only the metadata of a list's objects.
    PartialMetadataList,
    /// All groups and resources at once, with the version of that form.
    Discovery(&'static str),
}

impl Accept {
    pub(super) fn parse(header: &str) -> Result<Self, ApiError> {
        if header.trim().is_empty() {
            return Ok(Self::default());
        }
        header.split(',').find_map(one).ok_or_else(|| refusal(header))
    }
}

/// Types that nobody speaks are refused in other words than forms that nobody knows.
fn refusal(header: &str) -> ApiError {
    let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let has_form = header.split(',').any(|range| range.contains("as="));
    if has_form {
        let message = format!("only the following media types are accepted: {types}");
        return ApiError::new(406, "NotAcceptable", message);
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {types}");
    ApiError { details: Some(Box::default()), ..ApiError::new(406, "NotAcceptable", message) }
}

fn one(range: &str) -> Option<Accept> {
    let mut parts = range.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "application/*" | "*/*" | "text/plain" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        _ => return None,
    };
    let (mut group, mut version, mut form) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            Some(("as", value)) => form = value,
            Some(_) | None => {}
        }
    }
    let shape = match (form, group, version) {
        ("", _, _) => Shape::Plain,
        ("Table", "meta.k8s.io" | "", "v1beta1") => Shape::Table("v1beta1"),
        ("Table", "meta.k8s.io" | "", "v1" | "") => Shape::Table("v1"),
        ("PartialObjectMetadata", _, _) => Shape::PartialMetadata,
        ("PartialObjectMetadataList", _, _) => Shape::PartialMetadataList,
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Shape::Discovery("v2"),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => Shape::Discovery("v2beta1"),
        _ => return None,
    };
    Some(Accept { encoding, shape })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_is_spoken_wins() {
        let cases = [
            ("", Encoding::Json, Shape::Plain),
            ("application/vnd.kubernetes.protobuf,application/json", Encoding::Json, Shape::Plain),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Encoding::Json,
                Shape::Table("v1"),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Encoding::Json,
                Shape::PartialMetadataList,
            ),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                Encoding::Json,
                Shape::Discovery("v2"),
            ),
            ("application/yaml", Encoding::Yaml, Shape::Plain),
            ("text/html, */*;q=0.8", Encoding::Json, Shape::Plain),
        ];
        for (header, encoding, shape) in cases {
            assert_eq!(Accept::parse(header), Ok(Accept { encoding, shape }), "{header}");
        }
    }

    #[test]
    fn a_form_that_nobody_speaks_is_not_acceptable() {
        assert_eq!(Accept::parse("image/png").unwrap_err().code, 406);
    }
}
