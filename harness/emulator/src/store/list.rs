//! Lists as clients ask for them: at a revision, by selectors, in pages that all show the same
//! moment. An older moment is rebuilt by walking the log backwards.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::token::Token;
use super::{Collection, Object, Place, Resource, Store};
use crate::error::{ApiError, FieldErrors};
use crate::select::{FieldSelector, LabelSelector};

/// What a client asks for.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// `labelSelector`.
    pub labels: LabelSelector,
    /// `fieldSelector`.
    pub fields: FieldSelector,
    /// `limit`; 0 is none.
    pub limit: usize,
    /// `continue`; empty is none.
    pub token: String,
    /// `resourceVersion`; empty is none.
    pub resource_version: String,
    /// `resourceVersionMatch`; empty is none.
    pub version_match: String,
}

/// A page.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its objects, in (namespace, name) order.
    pub items: Vec<Object>,
    /// The revision it shows.
    pub revision: u64,
    /// How to ask for the next page.
    pub token: Option<String>,
    /// How many objects follow; unknown when selectors are in use.
    pub remaining: Option<u64>,
}

/// At which moment, and after which place.
struct Start {
    revision: u64,
    after: Option<Place>,
}

impl Store {
    /// A page of a collection.
    pub fn list_page(&self, resource: &Resource, query: &ListQuery) -> Result<Listed, ApiError> {
        let start = self.start(query)?;
        let whole;
        let query = if query.resource_version == "0" && is_cached(resource) {
            whole = ListQuery { limit: 0, ..query.clone() };
            &whole
        } else {
            query
        };
        let current = self.collections.get(resource);
        let past;
        let collection = if start.revision == self.revision() {
            current
        } else {
            past = self.rewound(resource, start.revision);
            Some(&past)
        };
        Ok(page(collection, query, start))
    }

    fn start(&self, query: &ListQuery) -> Result<Start, ApiError> {
        check_combination(query)?;
        if !query.token.is_empty() {
            return self.resumed(query);
        }
        let current = self.revision();
        let asked = parse_revision(&query.resource_version)?;
        if asked > current {
            return Err(ApiError::too_large_revision(asked, current));
        }
        let exact = query.version_match == "Exact"
            || (query.version_match.is_empty() && query.limit > 0 && asked > 0);
        if exact && asked < self.compacted {
            return Err(ApiError::expired("The resourceVersion for the provided list is too old."));
        }
        Ok(Start { revision: if exact { asked } else { current }, after: None })
    }

    fn resumed(&self, query: &ListQuery) -> Result<Start, ApiError> {
        let token = Token::decode(&query.token)?;
        let after: Place = (token.after.0.as_str().into(), token.after.1.as_str().into());
        if token.revision != 0 && token.revision < self.compacted {
            let mut error = ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. \
                 You can start a new list without the continue parameter, or use the continue \
                 token in this response to retrieve the remainder of the results. Continuing with \
                 the provided token results in an inconsistent list - objects that were created, \
                 modified, or deleted between the time the first chunk was returned and now may \
                 show up in the list.",
            );
            error.continue_token = Some(Token { revision: 0, ..token }.encode());
            return Err(error);
        }
        let current = self.revision();
        if token.revision > current {
            return Err(ApiError::too_large_revision(token.revision, current));
        }
        let revision = if token.revision == 0 { current } else { token.revision };
        Ok(Start { revision, after: Some(after) })
    }

    /// The collection as it was at `revision`.
    fn rewound(&self, resource: &Resource, revision: u64) -> Collection {
        let mut collection = self.collections.get(resource).cloned().unwrap_or_default();
        let mut undone: BTreeMap<Place, Option<Object>> = BTreeMap::new();
        for entry in self.log_since(revision).unwrap_or_default().iter().rev() {
            if entry.key.resource == *resource {
                let place = (Arc::clone(&entry.key.namespace), Arc::clone(&entry.key.name));
                undone.insert(place, entry.previous.clone());
            }
        }
        for (place, object) in undone {
            match object {
                Some(object) => collection.insert(place, object),
                None => collection.remove(&place),
            };
        }
        collection
    }
}

/// Of what the real server holds in memory, a list at any revision is whole, whatever its limit.
fn is_cached(resource: &Resource) -> bool {
    &*resource.plural != "events"
}

fn page(collection: Option<&Collection>, query: &ListQuery, start: Start) -> Listed {
    let mut listed =
        Listed { items: Vec::new(), revision: start.revision, token: None, remaining: None };
    let Some(collection) = collection else {
        return listed;
    };
    let namespace = query.namespace.as_deref();
    let first = start.after.map_or_else(
        || Bound::Included((Arc::from(namespace.unwrap_or_default()), Arc::from(""))),
        Bound::Excluded,
    );
    let mut rest = collection
        .range((first, Bound::Unbounded))
        .take_while(|((of, _), _)| namespace.is_none_or(|wanted| **of == *wanted));
    let wanted = |object: &Object| query.labels.matches(object) && query.fields.matches(object);
    let mut last: Option<&Place> = None;
    for (place, object) in rest.by_ref() {
        if !wanted(object) {
            continue;
        }
        if query.limit > 0 && listed.items.len() == query.limit {
            let after = last.map_or_else(Default::default, |(ns, name)| {
                (ns.as_ref().to_owned(), name.as_ref().to_owned())
            });
            listed.token = Some(Token { revision: start.revision, after }.encode());
            let unselected = query.labels.is_empty() && query.fields.is_empty();
            listed.remaining = unselected.then(|| 1 + rest.count() as u64);
            return listed;
        }
        last = Some(place);
        listed.items.push(Arc::clone(object));
    }
    listed
}

fn parse_revision(text: &str) -> Result<u64, ApiError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        let why = format!("strconv.ParseUint: parsing \"{text}\": invalid syntax");
        let what = format!("resourceVersion: Invalid value: \"{text}\": {why}");
        ApiError::bad_request(format!("invalid resource version: {what}"))
    })
}

fn check_combination(query: &ListQuery) -> Result<(), ApiError> {
    let ListQuery { version_match, resource_version, token, .. } = query;
    if !token.is_empty() && !resource_version.is_empty() && resource_version != "0" {
        let why = "specifying resource version is not allowed when using continue";
        return Err(ApiError::bad_request(why));
    }
    let mut errors = FieldErrors::new();
    let field = "resourceVersionMatch";
    if version_match.is_empty() {
        return Ok(());
    }
    if resource_version.is_empty() {
        let rule = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        errors.forbidden(field, rule);
    }
    if !token.is_empty() {
        errors.forbidden(field, "resourceVersionMatch is forbidden when continue is provided");
    }
    if !matches!(version_match.as_str(), "Exact" | "NotOlderThan") {
        let allowed = ["Exact", "NotOlderThan", ""];
        errors.unsupported(field, &version_match.as_str().into(), &allowed);
    }
    if version_match == "Exact" && resource_version == "0" {
        let rule = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
        errors.forbidden(field, rule);
    }
    errors.refuse_options("ListOptions")
}
