//! The `Accept` header: encoding and format of a response.

use crate::api_types::error::ApiError;

/// The response format that the `Accept` header asks for. Unsupported media types are skipped. A
/// client that accepts protobuf alone gets JSON, which every Go client reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Accept {
    pub(super) encoding: Encoding,
    pub(super) format: ResponseFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Encoding {
    #[default]
    Json,
    /// Indented JSON, which the parameter `pretty=true` asks for.
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
pub(super) enum ResponseFormat {
    /// The objects as they are.
    #[default]
    Plain,
    /// A `Table` of `meta.k8s.io`, with the version of that API.
    Table(&'static str),
    /// Only an object's metadata.
    PartialMetadata,
    /// Only the metadata of a list's objects.
    PartialMetadataList,
    /// Aggregated discovery, with the version of that API.
    Discovery(&'static str),
}

impl Accept {
    pub(super) fn parse(header: &str) -> Result<Self, ApiError> {
        if header.trim().is_empty() {
            return Ok(Self::default());
        }
        let ranges = || header.split(',').map(str::trim);
        let protobuf = || {
            let mut of_protobuf =
                ranges().filter_map(|range| range.strip_prefix(schedlab_protobuf::MEDIA_TYPE));
            of_protobuf.find_map(|form| parse_media_range(&format!("application/json{form}")))
        };
        let accepted = ranges().find_map(parse_media_range).or_else(protobuf);
        accepted.ok_or_else(|| not_acceptable_error(header))
    }
}

/// The 406 error. As in kube-apiserver, the text for an unsupported media type differs from that
/// for an unsupported format.
fn not_acceptable_error(header: &str) -> ApiError {
    let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let has_form = header.split(',').any(|range| range.contains("as="));
    if has_form {
        let message = format!("only the following media types are accepted: {types}");
        return ApiError::new(406, "NotAcceptable", message);
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {types}");
    ApiError { details: Some(Box::default()), ..ApiError::new(406, "NotAcceptable", message) }
}

fn parse_media_range(range: &str) -> Option<Accept> {
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
    let format = match (form, group, version) {
        ("", _, _) => ResponseFormat::Plain,
        ("Table", "meta.k8s.io" | "", "v1beta1") => ResponseFormat::Table("v1beta1"),
        ("Table", "meta.k8s.io" | "", "v1" | "") => ResponseFormat::Table("v1"),
        ("PartialObjectMetadata", _, _) => ResponseFormat::PartialMetadata,
        ("PartialObjectMetadataList", _, _) => ResponseFormat::PartialMetadataList,
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => ResponseFormat::Discovery("v2"),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
            ResponseFormat::Discovery("v2beta1")
        }
        _ => return None,
    };
    Some(Accept { encoding, format })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_supported_media_type_wins() {
        let cases = [
            ("", Encoding::Json, ResponseFormat::Plain),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Encoding::Json,
                ResponseFormat::Plain,
            ),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Encoding::Json,
                ResponseFormat::Table("v1"),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Encoding::Json,
                ResponseFormat::PartialMetadataList,
            ),
            (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                Encoding::Json,
                ResponseFormat::Discovery("v2"),
            ),
            ("application/vnd.kubernetes.protobuf", Encoding::Json, ResponseFormat::Plain),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                Encoding::Json,
                ResponseFormat::PartialMetadata,
            ),
            ("application/yaml", Encoding::Yaml, ResponseFormat::Plain),
            ("text/html, */*;q=0.8", Encoding::Json, ResponseFormat::Plain),
        ];
        for (header, encoding, format) in cases {
            assert_eq!(Accept::parse(header), Ok(Accept { encoding, format }), "{header}");
        }
    }

    #[test]
    fn an_unsupported_media_type_is_not_acceptable() {
        assert_eq!(Accept::parse("image/png").unwrap_err().code, 406);
    }
}
