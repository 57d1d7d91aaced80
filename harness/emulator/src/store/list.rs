//! LIST requests: at a revision, with selectors, in pages that all show the same revision. An older
//! revision is reconstructed by undoing the log.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::continue_token::ContinueToken;
use super::{Collection, NamespacedName, Object, Resource, Store};
use crate::api_types::error::{ApiError, FieldErrors};
use crate::api_types::field_selector::FieldSelector;
use crate::api_types::label_selector::LabelSelector;

/// The parameters of a LIST request.
#[derive(Clone, Debug, Default)]
pub struct ListQuery {
    /// Restricts the list to a namespace; `None` lists all namespaces.
    pub namespace: Option<String>,
    /// The parameter `labelSelector`.
    pub labels: LabelSelector,
    /// The parameter `fieldSelector`.
    pub fields: FieldSelector,
    /// The parameter `limit`; 0 means no limit.
    pub limit: usize,
    /// The parameter `continue`; empty for the first page.
    pub continue_token: String,
    /// The parameter `resourceVersion`; empty if absent.
    pub resource_version: String,
    /// The parameter `resourceVersionMatch`; empty if absent.
    pub version_match: String,
}

/// A page of the response to a LIST request.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// The objects, ordered by namespace and name.
    pub items: Vec<Object>,
    /// The revision that the page shows.
    pub revision: u64,
    /// The token for the next page; `None` on the last page.
    pub continue_token: Option<String>,
    /// The number of objects on later pages; `None` if selectors are in use.
    pub remaining_items: Option<u64>,
}

/// The revision of a page, and the object after which it starts.
struct PageStart {
    revision: u64,
    after: Option<NamespacedName>,
}

impl Store {
    /// Lists a page of a collection.
    ///
    /// # Errors
    /// 400 or 422 for invalid parameters, 410 for a compacted revision, 504 for a future revision.
    pub fn list_page(&self, resource: &Resource, query: &ListQuery) -> Result<ListPage, ApiError> {
        let start = self.page_start(query)?;
        let whole;
        let query = if query.resource_version == "0" && is_watch_cached(resource) {
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
            past = self.collection_at(resource, start.revision);
            Some(&past)
        };
        Ok(build_page(collection, query, start))
    }

    fn page_start(&self, query: &ListQuery) -> Result<PageStart, ApiError> {
        check_list_query(query)?;
        if !query.continue_token.is_empty() {
            return self.resume_page(query);
        }
        let current = self.revision();
        let requested = parse_revision(&query.resource_version)?;
        if requested > current {
            return Err(ApiError::too_large_revision(requested, current));
        }
        let exact = query.version_match == "Exact"
            || (query.version_match.is_empty() && query.limit > 0 && requested > 0);
        if exact && requested < self.compacted {
            return Err(ApiError::expired("The resourceVersion for the provided list is too old."));
        }
        Ok(PageStart { revision: if exact { requested } else { current }, after: None })
    }

    fn resume_page(&self, query: &ListQuery) -> Result<PageStart, ApiError> {
        let token = ContinueToken::decode(&query.continue_token)?;
        let after: NamespacedName = (token.after.0.as_str().into(), token.after.1.as_str().into());
        if token.revision != 0 && token.revision < self.compacted {
            let mut error = ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. \
                 You can start a new list without the continue parameter, or use the continue \
                 token in this response to retrieve the remainder of the results. Continuing with \
                 the provided token results in an inconsistent list - objects that were created, \
                 modified, or deleted between the time the first chunk was returned and now may \
                 show up in the list.",
            );
            error.continue_token = Some(ContinueToken { revision: 0, ..token }.encode());
            return Err(error);
        }
        let current = self.revision();
        if token.revision > current {
            return Err(ApiError::too_large_revision(token.revision, current));
        }
        let revision = if token.revision == 0 { current } else { token.revision };
        Ok(PageStart { revision, after: Some(after) })
    }

    /// The collection as it was at `revision`.
    fn collection_at(&self, resource: &Resource, revision: u64) -> Collection {
        let mut collection = self.collections.get(resource).cloned().unwrap_or_default();
        let mut undone: BTreeMap<NamespacedName, Option<Object>> = BTreeMap::new();
        for entry in self.log_since(revision).unwrap_or_default().iter().rev() {
            if entry.key.resource == *resource {
                let namespaced_name =
                    (Arc::clone(&entry.key.namespace), Arc::clone(&entry.key.name));
                undone.insert(namespaced_name, entry.previous.clone());
            }
        }
        for (namespaced_name, object) in undone {
            match object {
                Some(object) => collection.insert(namespaced_name, object),
                None => collection.remove(&namespaced_name),
            };
        }
        collection
    }
}

/// Whether kube-apiserver serves the collection from its watch cache. Such a list at
/// `resourceVersion=0` ignores `limit`.
fn is_watch_cached(resource: &Resource) -> bool {
    &*resource.plural != "events"
}

fn build_page(collection: Option<&Collection>, query: &ListQuery, start: PageStart) -> ListPage {
    let mut page = ListPage {
        items: Vec::new(),
        revision: start.revision,
        continue_token: None,
        remaining_items: None,
    };
    let Some(collection) = collection else {
        return page;
    };
    let namespace = query.namespace.as_deref();
    let first = start.after.map_or_else(
        || Bound::Included((Arc::from(namespace.unwrap_or_default()), Arc::from(""))),
        Bound::Excluded,
    );
    let mut rest = collection
        .range((first, Bound::Unbounded))
        .take_while(|((of, _), _)| namespace.is_none_or(|namespace| **of == *namespace));
    let is_selected =
        |object: &Object| query.labels.matches(object) && query.fields.matches(object);
    let mut last: Option<&NamespacedName> = None;
    for (namespaced_name, object) in rest.by_ref() {
        if !is_selected(object) {
            continue;
        }
        if query.limit > 0 && page.items.len() == query.limit {
            let after = last.map_or_else(Default::default, |(ns, name)| {
                (ns.as_ref().to_owned(), name.as_ref().to_owned())
            });
            page.continue_token = Some(ContinueToken { revision: start.revision, after }.encode());
            let unselected = query.labels.is_empty() && query.fields.is_empty();
            page.remaining_items = unselected.then(|| 1 + rest.count() as u64);
            return page;
        }
        last = Some(namespaced_name);
        page.items.push(Arc::clone(object));
    }
    page
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

fn check_list_query(query: &ListQuery) -> Result<(), ApiError> {
    let ListQuery { version_match, resource_version, continue_token: token, .. } = query;
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
    errors.into_options_result("ListOptions")
}
