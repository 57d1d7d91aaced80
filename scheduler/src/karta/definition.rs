//! Parses and validates Karta objects. Rejects what KAI's validation rejects; ignores fields that
//! do not affect the grouping of pods.

use schedlab_api::Value;
use schedlab_scheduler_core::model::{Name, TopologyConstraint};

use super::{
    DescribedKind,
    expression::Expression,
    tree::{Component, Gang, Karta, Member, Scale, Selector, SubGroup},
};
use crate::parse::{Malformed, at, name, shown};

const ROOT: &str = "spec.structureDefinition.rootComponent";
const CHILDREN: &str = "spec.structureDefinition.childComponents";
const GANG: &str = "spec.optimizationInstructions.gangScheduling";
pub(super) const KIND: &str = "spec.structureDefinition.rootComponent.kind";
/// Maximum number of components, and of members of all pod groups.
const COMPONENTS_MAX: usize = 256;

const NAME: &str = "a name that no other component has";
const COMPONENT: &str = "the name of a component";
const OTHER: &str = "a component that no earlier sub-group names";
const PARENT: &str = "another component, from which ownerRefs lead to the rootComponent";
const OBJECT: &str = "an object";
const LIST: &str = "a list";
const TEXT: &str = "a string";
const EXPRESSION: &str = "a jq expression";
/// Labels by which KAI finds the Karta of a kind, and what the value of each label must be.
const KIND_LABELS: [(&str, &str); 3] = [
    ("group", "the group of its rootComponent.kind"),
    ("version", "the version of its rootComponent.kind"),
    ("kind", "the kind of its rootComponent.kind"),
];

/// The kind whose pods a Karta groups; `None`: the Karta groups no pods. A Karta with an error is
/// not found by its kind.
pub(super) fn described_kind(object: &Value) -> Result<Option<DescribedKind>, Malformed> {
    if at(object, "/metadata/deletionTimestamp").is_some() {
        return Ok(None);
    }
    KartaReader::new(object).described_kind()
}

/// Parses components and gang scheduling section of a Karta.
pub(super) fn parse_karta(object: &Value) -> Result<Karta, Malformed> {
    let reader = KartaReader::new(object);
    let components = reader.components()?;
    let gang = reader.gang(&components)?;
    Ok(Karta { name: reader.name, components, gang })
}

struct KartaReader<'a> {
    object: &'a Value,
    name: Name,
}

/// A value inside a Karta, with its field path for error messages.
#[derive(Clone, Copy)]
struct FieldRef<'a> {
    value: &'a Value,
    path: &'a str,
}

impl<'a> KartaReader<'a> {
    fn new(object: &'a Value) -> Self {
        Self { object, name: name(object, "/metadata/name").unwrap_or_default() }
    }

    fn root(&self) -> FieldRef<'a> {
        FieldRef { value: self.object, path: "" }
    }

    /// Field path for error messages, with the name of this Karta.
    fn field(&self, path: &str) -> String {
        format!("{path} of Karta {}", self.name)
    }

    fn wrong(&self, path: &str, found: &str, allowed: &'static str) -> Malformed {
        Malformed::new(self.field(path), if found.is_empty() { "nothing" } else { found }, allowed)
    }

    /// Value of a field; `None`: the field is missing or null.
    fn value<'v>(&self, at: FieldRef<'v>, field: &str) -> Result<Option<&'v Value>, Malformed> {
        let (mut of, mut path) = (at.value, at.path.to_owned());
        for part in field.split('.') {
            match of {
                Value::Null => return Ok(None),
                Value::Object(fields) => match fields.get(part) {
                    None => return Ok(None),
                    Some(inner) => of = inner,
                },
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    return Err(self.wrong(&path, &shown(of), OBJECT));
                }
            }
            path = join(&path, part);
        }
        Ok(Some(of).filter(|of| !of.is_null()))
    }

    /// Value of a field, converted by `read`; an error if it has another type.
    fn typed<'v, T>(
        &self,
        target: FieldRef<'v>,
        field: &str,
        read: impl Fn(&'v Value) -> Option<T>,
        allowed: &'static str,
    ) -> Result<Option<T>, Malformed> {
        let Some(found) = self.value(target, field)? else { return Ok(None) };
        let wrong = || self.wrong(&join(target.path, field), &shown(found), allowed);
        read(found).ok_or_else(wrong).map(Some)
    }

    fn object<'v>(
        &self,
        target: FieldRef<'v>,
        field: &str,
    ) -> Result<Option<&'v Value>, Malformed> {
        self.typed(target, field, |found| Some(found).filter(|it| it.is_object()), OBJECT)
    }

    /// Reads a list field; empty if the field is missing.
    fn list<'v>(&self, target: FieldRef<'v>, field: &str) -> Result<&'v [Value], Malformed> {
        let list = self.typed(target, field, Value::as_array, LIST)?;
        Ok(list.map_or(&[], Vec::as_slice))
    }

    /// Reads a string field; empty if the field is missing.
    fn text<'v>(&self, target: FieldRef<'v>, field: &str) -> Result<&'v str, Malformed> {
        Ok(self.typed(target, field, Value::as_str, TEXT)?.unwrap_or_default())
    }

    /// Reads a string field that names something; `None` if it is missing or empty.
    fn name(&self, target: FieldRef<'_>, field: &str) -> Result<Option<Name>, Malformed> {
        let text = self.text(target, field)?;
        Ok((!text.is_empty()).then(|| text.into()))
    }

    fn described_kind(&self) -> Result<Option<DescribedKind>, Malformed> {
        let Some(gang) = self.object(self.root(), GANG)? else { return Ok(None) };
        let gang = FieldRef { value: gang, path: GANG };
        if self.object(gang, "podGroup")?.is_none() && self.list(gang, "podGroups")?.is_empty() {
            return Ok(None);
        }
        let kind = self.value(self.root(), KIND)?.unwrap_or(&Value::Null);
        let kind = FieldRef { value: kind, path: KIND };
        let part = |part| self.text(kind, part);
        let (group, version, kind) = (part("group")?, part("version")?, part("kind")?);
        // Of the core group, whose name is empty, only pods are supported.
        let has_group = !group.is_empty() || kind == "Pod";
        if !has_group || version.is_empty() || kind.is_empty() {
            return Err(self.wrong(KIND, "an incomplete kind", "group, version and kind"));
        }
        for ((part, allowed), value) in KIND_LABELS.into_iter().zip([group, version, kind]) {
            self.check_label(part, value, allowed)?;
        }
        let api_version =
            if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Ok(Some((api_version.into(), kind.into())))
    }

    /// Checks that a label matches the described kind.
    fn check_label(&self, part: &str, value: &str, allowed: &'static str) -> Result<(), Malformed> {
        let label = format!("run.ai/karta-{part}");
        let found = at(self.object, "/metadata/labels").and_then(|labels| labels.get(&*label));
        if found.and_then(Value::as_str) == Some(value) {
            return Ok(());
        }
        let found = found.map_or_else(|| "nothing".to_owned(), shown);
        let found = format!("{found} for rootComponent.kind {value:?}");
        Err(self.wrong(&format!("metadata.labels[{label}]"), &found, allowed))
    }

    /// The root component, then its children in the order of the list.
    fn components(&self) -> Result<Vec<Component>, Malformed> {
        let root = self.object(self.root(), ROOT)?.unwrap_or(&Value::Null);
        let children = self.list(self.root(), CHILDREN)?;
        if children.len() >= COMPONENTS_MAX {
            let found = format!("{} components", children.len());
            return Err(self.wrong(CHILDREN, &found, "at most 255 components"));
        }
        let root = FieldRef { value: root, path: ROOT };
        self.check_root(root)?;
        let mut components = vec![self.component(root)?];
        for (position, of) in children.iter().enumerate() {
            let path = format!("{CHILDREN}[{position}]");
            let component = self.component(FieldRef { value: of, path: &path })?;
            if components.iter().any(|other| other.name == component.name) {
                return Err(self.wrong(&format!("{path}.name"), &component.name, NAME));
            }
            components.push(component);
        }
        self.link_parents(&mut components, children)?;
        Ok(components)
    }

    fn check_root(&self, root: FieldRef<'_>) -> Result<(), Malformed> {
        if let Some(owner) = self.value(root, "ownerRef")? {
            return Err(self.wrong(&format!("{ROOT}.ownerRef"), &shown(owner), "nothing"));
        }
        if self.object(root, "statusDefinition")?.is_none() {
            let field = format!("{ROOT}.statusDefinition");
            return Err(self.wrong(&field, "", "a status definition"));
        }
        Ok(())
    }

    /// Sets the parent of each child component; rejects unknown parents and cycles.
    fn link_parents(
        &self,
        components: &mut [Component],
        children: &[Value],
    ) -> Result<(), Malformed> {
        for (position, of) in children.iter().enumerate() {
            let path = format!("{CHILDREN}[{position}]");
            let owner = self.text(FieldRef { value: of, path: &path }, "ownerRef")?;
            let parent = components.iter().position(|component| *component.name == *owner);
            let field = format!("{path}.ownerRef");
            components[position + 1].parent =
                Some(parent.ok_or_else(|| self.wrong(&field, owner, PARENT))?);
        }
        for start in 1..components.len() {
            let above = std::iter::successors(Some(start), |at| components[*at].parent);
            if above.take(components.len() + 1).count() > components.len() {
                let field = format!("{CHILDREN}[{}].ownerRef", start - 1);
                return Err(self.wrong(&field, "a cycle", PARENT));
            }
        }
        Ok(())
    }

    fn component(&self, target: FieldRef<'_>) -> Result<Component, Malformed> {
        let path = target.path;
        let Some(called) = self.name(target, "name")? else {
            return Err(self.wrong(&format!("{path}.name"), "", NAME));
        };
        let mut specs = 0;
        for spec in ["podTemplateSpecPath", "podSpecPath", "fragmentedPodSpecDefinition"] {
            specs += usize::from(self.value(target, &format!("specDefinition.{spec}"))?.is_some());
        }
        if specs > 1 {
            let field = format!("{path}.specDefinition");
            return Err(self.wrong(&field, "several pod definitions", "one"));
        }
        let instances = self.optional_expression(target, "instanceIdPath")?;
        let of_instance = "podSelector.componentInstanceSelector";
        let instance_of_pod = self.required_expression(target, of_instance, "idPath")?;
        let missing = match (&instances, &instance_of_pod) {
            (Some(_), None) => Some((of_instance, "an idPath, because instanceIdPath is set")),
            (None, Some(_)) => Some((
                "instanceIdPath",
                "a jq expression, because podSelector.componentInstanceSelector is set",
            )),
            (Some(_), Some(_)) | (None, None) => None,
        };
        if let Some((field, allowed)) = missing {
            return Err(self.wrong(&format!("{path}.{field}"), "", allowed));
        }
        Ok(Component {
            name: called,
            parent: None,
            has_pods: specs > 0,
            scale: self.scale(target)?,
            instances,
            selector: self.selector(target)?,
            instance_of_pod,
        })
    }

    fn scale(&self, target: FieldRef<'_>) -> Result<Option<Scale>, Malformed> {
        if self.object(target, "scaleDefinition")?.is_none() {
            return Ok(None);
        }
        Ok(Some(Scale {
            field: self.field(&format!("{}.scaleDefinition", target.path)),
            replicas: self.optional_expression(target, "scaleDefinition.replicasPath")?,
            min_replicas: self.optional_expression(target, "scaleDefinition.minReplicasPath")?,
            max_replicas: self.optional_expression(target, "scaleDefinition.maxReplicasPath")?,
        }))
    }

    fn selector(&self, target: FieldRef<'_>) -> Result<Option<Selector>, Malformed> {
        let of_type = "podSelector.componentTypeSelector";
        let Some(key) = self.required_expression(target, of_type, "keyPath")? else {
            return Ok(None);
        };
        let value = self.typed(target, &format!("{of_type}.value"), as_text, TEXT)?;
        Ok(Some(match value {
            None => Selector::Exists(key),
            // Concatenated as in KAI, without regard to the precedence of operators in the key
            // path.
            Some(value) => {
                let field = format!("{of_type}.keyPath");
                let text = format!("{} == {value}", self.text(target, &field)?);
                let field = self.field(&format!("{}.{field}", target.path));
                Selector::IsTrue(Expression::parse(field, &text)?)
            }
        }))
    }

    /// The expression in a field; `None` if it is missing.
    fn optional_expression(
        &self,
        target: FieldRef<'_>,
        field: &str,
    ) -> Result<Option<Expression>, Malformed> {
        let found = self.value(target, field)?;
        found.map(|found| self.expression(&join(target.path, field), found)).transpose()
    }

    /// The required expression in a field of an optional object; `None` if the object is missing.
    fn required_expression(
        &self,
        target: FieldRef<'_>,
        object: &str,
        field: &str,
    ) -> Result<Option<Expression>, Malformed> {
        if self.object(target, object)?.is_none() {
            return Ok(None);
        }
        let field = join(object, field);
        let expression = self.optional_expression(target, &field)?;
        let missing = || self.wrong(&join(target.path, &field), "", EXPRESSION);
        expression.ok_or_else(missing).map(Some)
    }

    fn expression(&self, path: &str, found: &Value) -> Result<Expression, Malformed> {
        let Some(text) = found.as_str() else {
            return Err(self.wrong(path, &shown(found), EXPRESSION));
        };
        Expression::parse(self.field(path), text)
    }

    fn gang(&self, components: &[Component]) -> Result<Gang, Malformed> {
        let gang = self.object(self.root(), GANG)?.unwrap_or(&Value::Null);
        let gang = FieldRef { value: gang, path: GANG };
        let members = self.members(gang, components)?;
        let Some(group) = self.object(gang, "podGroup")? else {
            return Ok(Gang::GroupedByKeys(members));
        };
        // As in KAI errors in this section are reported on the pods to be grouped, not on the
        // Karta.
        let path = format!("{GANG}.podGroup");
        let group = self.group(FieldRef { value: group, path: &path }, components);
        Ok(group.unwrap_or_else(Gang::Invalid))
    }

    fn group(&self, target: FieldRef<'_>, components: &[Component]) -> Result<Gang, Malformed> {
        let Some(called) = self.name(target, "name")? else {
            return Err(self.wrong(&format!("{}.name", target.path), "", "a name suffix"));
        };
        let topology = self.topology(target)?;
        let mut sub_groups: Vec<SubGroup> = Vec::new();
        for (position, of) in self.list(target, "subGroups")?.iter().enumerate() {
            let path = format!("{}.subGroups[{position}]", target.path);
            let component =
                self.component_index(FieldRef { value: of, path: &path }, components)?;
            let path_of_name = format!("{path}.componentName");
            if sub_groups.iter().any(|other| other.component == component) {
                return Err(self.wrong(&path_of_name, &components[component].name, OTHER));
            }
            let topology = self.topology(FieldRef { value: of, path: &path })?;
            sub_groups.push(SubGroup { field: self.field(&path_of_name), component, topology });
        }
        let field = self.field(&format!("{}.name", target.path));
        Ok(Gang::SingleGroup { field, name: called, topology, sub_groups })
    }

    /// Index of the component that `componentName` names.
    fn component_index(
        &self,
        target: FieldRef<'_>,
        components: &[Component],
    ) -> Result<usize, Malformed> {
        let name = self.text(target, "componentName")?;
        let found = components.iter().position(|component| *component.name == *name);
        found.ok_or_else(|| self.wrong(&format!("{}.componentName", target.path), name, COMPONENT))
    }

    fn topology(&self, target: FieldRef<'_>) -> Result<Option<TopologyConstraint>, Malformed> {
        if self.object(target, "topology")?.is_none() {
            return Ok(None);
        }
        let Some(topology) = self.name(target, "topology.topologyName")? else {
            let field = format!("{}.topology.topologyName", target.path);
            return Err(self.wrong(&field, "", "the name of a Topology"));
        };
        let required = self.name(target, "topology.requiredTopologyLevel")?;
        let preferred = self.name(target, "topology.preferredTopologyLevel")?;
        if required.is_none() && preferred.is_none() {
            let field = format!("{}.topology", target.path);
            let allowed = "requiredTopologyLevel, preferredTopologyLevel or both";
            return Err(self.wrong(&field, "no level", allowed));
        }
        Ok(Some(TopologyConstraint { topology, required, preferred }))
    }

    fn members(
        &self,
        gang: FieldRef<'_>,
        components: &[Component],
    ) -> Result<Vec<Member>, Malformed> {
        let mut all = Vec::new();
        for (at, of) in self.list(gang, "podGroups")?.iter().enumerate() {
            let path = format!("{GANG}.podGroups[{at}]");
            let members = self.list(FieldRef { value: of, path: &path }, "members")?;
            if all.len() + members.len() > COMPONENTS_MAX {
                let found = format!("{} members", all.len() + members.len());
                return Err(self.wrong(&path, &found, "at most 256 in all groups"));
            }
            for (position, of) in members.iter().enumerate() {
                let path = format!("{path}.members[{position}]");
                all.push(self.member(FieldRef { value: of, path: &path }, components)?);
            }
        }
        Ok(all)
    }

    fn member(&self, target: FieldRef<'_>, components: &[Component]) -> Result<Member, Malformed> {
        Ok(Member {
            component: self.component_index(target, components)?,
            keys: self.expressions(target, "groupByKeyPaths")?,
            filters: self.expressions(target, "filters")?,
            field: self.field(&format!("{}.groupByKeyPaths", target.path)),
        })
    }

    /// The expressions in a list field.
    fn expressions(&self, target: FieldRef<'_>, field: &str) -> Result<Vec<Expression>, Malformed> {
        let expressions = self.list(target, field)?.iter().enumerate();
        let path = |at: usize| format!("{}.{field}[{at}]", target.path);
        expressions.map(|(at, found)| self.expression(&path(at), found)).collect()
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The value if it is a string. Formatting the value, unlike its text, keeps the quotes.
fn as_text(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| value.is_string())
}

#[cfg(test)]
mod tests;
