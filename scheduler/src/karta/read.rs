//! What stands in a Karta. What KAI's validation refuses is refused; what does not matter to groups
//! of pods is not looked at.

use schedlab_json::Value;
use schedlab_scheduler_core::model::{Name, TopologyConstraint};

use super::{
    Described,
    ask::Asked,
    tree::{Component, Gang, Karta, Member, Scale, Selector, SubGroup},
};
use crate::parse::{Malformed, at, name, shown};

const ROOT: &str = "spec.structureDefinition.rootComponent";
const CHILDREN: &str = "spec.structureDefinition.childComponents";
const GANG: &str = "spec.optimizationInstructions.gangScheduling";
pub(super) const KIND: &str = "spec.structureDefinition.rootComponent.kind";
/// More components, or more members of groups, are a mistake.
const COMPONENTS_MAX: usize = 256;

const NAME: &str = "a name that no other component has";
const COMPONENT: &str = "the name of a component";
const OTHER: &str = "a component that no sub-group before it names";
const PARENT: &str = "the name of another component that leads to the root";
const OBJECT: &str = "an object";
const LIST: &str = "a list";
const TEXT: &str = "a text";
const EXPRESSION: &str = "a jq expression";
/// What the labels say by which a Karta is found.
const LABELLED: [(&str, &str); 3] = [
    ("group", "the group of its rootComponent.kind"),
    ("version", "the version of its rootComponent.kind"),
    ("kind", "the kind of its rootComponent.kind"),
];

/// The kind whose pods a Karta groups; `None`: it groups none. What is wrong is why nobody finds
/// it.
pub(super) fn described(object: &Value) -> Result<Option<Described>, Malformed> {
    if at(object, "/metadata/deletionTimestamp").is_some() {
        return Ok(None);
    }
    Reader::of(object).described()
}

/// The components of one that is found, and how it groups them.
pub(super) fn karta(object: &Value) -> Result<Karta, Malformed> {
    let reader = Reader::of(object);
    let components = reader.components()?;
    let gang = reader.gang(&components)?;
    Ok(Karta { called: reader.called, components, gang })
}

struct Reader<'a> {
    object: &'a Value,
    called: Name,
}

/// One object in a Karta, and the path of its field.
#[derive(Clone, Copy)]
struct Place<'a> {
    of: &'a Value,
    path: &'a str,
}

impl<'a> Reader<'a> {
    fn of(object: &'a Value) -> Self {
        Self { object, called: name(object, "/metadata/name").unwrap_or_default() }
    }

    fn whole(&self) -> Place<'a> {
        Place { of: self.object, path: "" }
    }

    /// A field of this Karta.
    fn field(&self, path: &str) -> String {
        format!("{path} of Karta {}", self.called)
    }

    fn wrong(&self, path: &str, found: &str, allowed: &'static str) -> Malformed {
        Malformed::new(self.field(path), if found.is_empty() { "nothing" } else { found }, allowed)
    }

    /// What stands in a field; `None`: nothing, or null.
    fn said<'v>(&self, place: Place<'v>, field: &str) -> Result<Option<&'v Value>, Malformed> {
        let (mut of, mut path) = (place.of, place.path.to_owned());
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

    /// What stands there, which is of this type.
    fn typed<'v, T>(
        &self,
        place: Place<'v>,
        field: &str,
        (read, allowed): (impl Fn(&'v Value) -> Option<T>, &'static str),
    ) -> Result<Option<T>, Malformed> {
        let Some(found) = self.said(place, field)? else { return Ok(None) };
        let wrong = || self.wrong(&join(place.path, field), &shown(found), allowed);
        read(found).ok_or_else(wrong).map(Some)
    }

    fn object<'v>(&self, place: Place<'v>, field: &str) -> Result<Option<&'v Value>, Malformed> {
        self.typed(place, field, (|found| Some(found).filter(|it| it.is_object()), OBJECT))
    }

    /// Empty where nothing stands.
    fn list<'v>(&self, place: Place<'v>, field: &str) -> Result<&'v [Value], Malformed> {
        let list = self.typed(place, field, (Value::as_array, LIST))?;
        Ok(list.map_or(&[], Vec::as_slice))
    }

    /// Empty where nothing stands.
    fn text<'v>(&self, place: Place<'v>, field: &str) -> Result<&'v str, Malformed> {
        Ok(self.typed(place, field, (Value::as_str, TEXT))?.unwrap_or_default())
    }

    /// `None`: an empty one, too.
    fn name(&self, place: Place<'_>, field: &str) -> Result<Option<Name>, Malformed> {
        let text = self.text(place, field)?;
        Ok((!text.is_empty()).then(|| text.into()))
    }

    fn described(&self) -> Result<Option<Described>, Malformed> {
        let Some(gang) = self.object(self.whole(), GANG)? else { return Ok(None) };
        let gang = Place { of: gang, path: GANG };
        if self.object(gang, "podGroup")?.is_none() && self.list(gang, "podGroups")?.is_empty() {
            return Ok(None);
        }
        let kind = self.said(self.whole(), KIND)?.unwrap_or(&Value::Null);
        let kind = Place { of: kind, path: KIND };
        let part = |part| self.text(kind, part);
        let (group, version, kind) = (part("group")?, part("version")?, part("kind")?);
        // Pods are the only kind of the group without a name.
        let has_group = !group.is_empty() || kind == "Pod";
        if !has_group || version.is_empty() || kind.is_empty() {
            return Err(self.wrong(KIND, "a part of it", "group, version and kind"));
        }
        for ((part, allowed), said) in LABELLED.into_iter().zip([group, version, kind]) {
            self.labelled((part, said), allowed)?;
        }
        let api_version =
            if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Ok(Some((api_version.into(), kind.into())))
    }

    /// A label says what its kind does.
    fn labelled(&self, (part, said): (&str, &str), allowed: &'static str) -> Result<(), Malformed> {
        let label = format!("run.ai/karta-{part}");
        let found = at(self.object, "/metadata/labels").and_then(|labels| labels.get(&*label));
        if found.and_then(Value::as_str) == Some(said) {
            return Ok(());
        }
        let found = found.map_or_else(|| "nothing".to_owned(), shown);
        let found = format!("{found}, while that is {said:?}");
        Err(self.wrong(&format!("metadata.labels[{label}]"), &found, allowed))
    }

    /// The root, then its children in their order.
    fn components(&self) -> Result<Vec<Component>, Malformed> {
        let root = self.object(self.whole(), ROOT)?.unwrap_or(&Value::Null);
        let children = self.list(self.whole(), CHILDREN)?;
        if children.len() >= COMPONENTS_MAX {
            let found = format!("{} components", children.len());
            return Err(self.wrong(CHILDREN, &found, "at most 255 components"));
        }
        let root = Place { of: root, path: ROOT };
        self.check_root(root)?;
        let mut components = vec![self.component(root)?];
        for (position, of) in children.iter().enumerate() {
            let path = format!("{CHILDREN}[{position}]");
            let component = self.component(Place { of, path: &path })?;
            if components.iter().any(|other| other.name == component.name) {
                return Err(self.wrong(&format!("{path}.name"), &component.name, NAME));
            }
            components.push(component);
        }
        self.parents(&mut components, children)?;
        Ok(components)
    }

    fn check_root(&self, root: Place<'_>) -> Result<(), Malformed> {
        if let Some(owner) = self.said(root, "ownerRef")? {
            return Err(self.wrong(&format!("{ROOT}.ownerRef"), &shown(owner), "nothing"));
        }
        if self.object(root, "statusDefinition")?.is_none() {
            let field = format!("{ROOT}.statusDefinition");
            return Err(self.wrong(&field, "", "a definition of its status"));
        }
        Ok(())
    }

    /// Which component owns each child. All lead to the root.
    fn parents(&self, components: &mut [Component], children: &[Value]) -> Result<(), Malformed> {
        for (position, of) in children.iter().enumerate() {
            let path = format!("{CHILDREN}[{position}]");
            let owner = self.text(Place { of, path: &path }, "ownerRef")?;
            let parent = components.iter().position(|component| *component.name == *owner);
            let field = format!("{path}.ownerRef");
            components[position + 1].parent =
                Some(parent.ok_or_else(|| self.wrong(&field, owner, PARENT))?);
        }
        for start in 1..components.len() {
            let above = std::iter::successors(Some(start), |at| components[*at].parent);
            if above.take(components.len() + 1).count() > components.len() {
                let field = format!("{CHILDREN}[{}].ownerRef", start - 1);
                return Err(self.wrong(&field, "a circle", PARENT));
            }
        }
        Ok(())
    }

    fn component(&self, place: Place<'_>) -> Result<Component, Malformed> {
        let path = place.path;
        let Some(called) = self.name(place, "name")? else {
            return Err(self.wrong(&format!("{path}.name"), "", NAME));
        };
        let mut specs = 0;
        for spec in ["podTemplateSpecPath", "podSpecPath", "fragmentedPodSpecDefinition"] {
            specs += usize::from(self.said(place, &format!("specDefinition.{spec}"))?.is_some());
        }
        if specs > 1 {
            let field = format!("{path}.specDefinition");
            return Err(self.wrong(&field, "several definitions of pods", "one"));
        }
        let instances = self.asked(place, "instanceIdPath")?;
        let of_instance = "podSelector.componentInstanceSelector";
        let instance_of_pod = self.required(place, (of_instance, "idPath"))?;
        let missing = match (&instances, &instance_of_pod) {
            (Some(_), None) => Some((of_instance, "an idPath beside instanceIdPath")),
            (None, Some(_)) => Some((
                "instanceIdPath",
                "a jq expression beside podSelector.componentInstanceSelector",
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
            scale: self.scale(place)?,
            instances,
            selector: self.selector(place)?,
            instance_of_pod,
        })
    }

    fn scale(&self, place: Place<'_>) -> Result<Option<Scale>, Malformed> {
        if self.object(place, "scaleDefinition")?.is_none() {
            return Ok(None);
        }
        Ok(Some(Scale {
            field: self.field(&format!("{}.scaleDefinition", place.path)),
            replicas: self.asked(place, "scaleDefinition.replicasPath")?,
            least: self.asked(place, "scaleDefinition.minReplicasPath")?,
            most: self.asked(place, "scaleDefinition.maxReplicasPath")?,
        }))
    }

    fn selector(&self, place: Place<'_>) -> Result<Option<Selector>, Malformed> {
        let of_type = "podSelector.componentTypeSelector";
        let Some(key) = self.required(place, (of_type, "keyPath"))? else { return Ok(None) };
        let value = self.typed(place, &format!("{of_type}.value"), (as_text, TEXT))?;
        Ok(Some(match value {
            None => Selector::Has(key),
            // As KAI has it, whatever binds more loosely than the comparison.
            Some(value) => {
                let field = format!("{of_type}.keyPath");
                let asked = format!("{} == {value}", self.text(place, &field)?);
                let field = self.field(&format!("{}.{field}", place.path));
                Selector::Is(Asked::read(field, &asked)?)
            }
        }))
    }

    /// The expression in a field, if there is one.
    fn asked(&self, place: Place<'_>, field: &str) -> Result<Option<Asked>, Malformed> {
        let found = self.said(place, field)?;
        found.map(|found| self.expression(&join(place.path, field), found)).transpose()
    }

    /// The expression that an object has in this field, if the object is there.
    fn required(
        &self,
        place: Place<'_>,
        (object, field): (&str, &str),
    ) -> Result<Option<Asked>, Malformed> {
        if self.object(place, object)?.is_none() {
            return Ok(None);
        }
        let field = join(object, field);
        let asked = self.asked(place, &field)?;
        let missing = || self.wrong(&join(place.path, &field), "", EXPRESSION);
        asked.ok_or_else(missing).map(Some)
    }

    fn expression(&self, path: &str, found: &Value) -> Result<Asked, Malformed> {
        let Some(text) = found.as_str() else {
            return Err(self.wrong(path, &shown(found), EXPRESSION));
        };
        Asked::read(self.field(path), text)
    }

    fn gang(&self, components: &[Component]) -> Result<Gang, Malformed> {
        let gang = self.object(self.whole(), GANG)?.unwrap_or(&Value::Null);
        let gang = Place { of: gang, path: GANG };
        let members = self.members(gang, components)?;
        let Some(group) = self.object(gang, "podGroup")? else {
            return Ok(Gang::Members(members));
        };
        // As in KAI whoever is to be grouped is told of what is wrong there.
        let path = format!("{GANG}.podGroup");
        let group = self.group(Place { of: group, path: &path }, components);
        Ok(group.unwrap_or_else(Gang::Unusable))
    }

    fn group(&self, place: Place<'_>, components: &[Component]) -> Result<Gang, Malformed> {
        let Some(called) = self.name(place, "name")? else {
            return Err(self.wrong(&format!("{}.name", place.path), "", "a part of a name"));
        };
        let topology = self.topology(place)?;
        let mut sub_groups: Vec<SubGroup> = Vec::new();
        for (position, of) in self.list(place, "subGroups")?.iter().enumerate() {
            let path = format!("{}.subGroups[{position}]", place.path);
            let component = self.named(Place { of, path: &path }, components)?;
            let path_of_name = format!("{path}.componentName");
            if sub_groups.iter().any(|other| other.component == component) {
                return Err(self.wrong(&path_of_name, &components[component].name, OTHER));
            }
            let topology = self.topology(Place { of, path: &path })?;
            sub_groups.push(SubGroup { field: self.field(&path_of_name), component, topology });
        }
        let field = self.field(&format!("{}.name", place.path));
        Ok(Gang::Group { field, name: called, topology, sub_groups })
    }

    /// The component that `componentName` names.
    fn named(&self, place: Place<'_>, components: &[Component]) -> Result<usize, Malformed> {
        let named = self.text(place, "componentName")?;
        let found = components.iter().position(|component| *component.name == *named);
        found.ok_or_else(|| self.wrong(&format!("{}.componentName", place.path), named, COMPONENT))
    }

    fn topology(&self, place: Place<'_>) -> Result<Option<TopologyConstraint>, Malformed> {
        if self.object(place, "topology")?.is_none() {
            return Ok(None);
        }
        let Some(topology) = self.name(place, "topology.topologyName")? else {
            let field = format!("{}.topology.topologyName", place.path);
            return Err(self.wrong(&field, "", "the name of a Topology"));
        };
        let required = self.name(place, "topology.requiredTopologyLevel")?;
        let preferred = self.name(place, "topology.preferredTopologyLevel")?;
        if required.is_none() && preferred.is_none() {
            let field = format!("{}.topology", place.path);
            let allowed = "requiredTopologyLevel, preferredTopologyLevel or both";
            return Err(self.wrong(&field, "no level", allowed));
        }
        Ok(Some(TopologyConstraint { topology, required, preferred }))
    }

    fn members(&self, gang: Place<'_>, components: &[Component]) -> Result<Vec<Member>, Malformed> {
        let mut all = Vec::new();
        for (at, of) in self.list(gang, "podGroups")?.iter().enumerate() {
            let path = format!("{GANG}.podGroups[{at}]");
            let members = self.list(Place { of, path: &path }, "members")?;
            if all.len() + members.len() > COMPONENTS_MAX {
                let found = format!("{} members", all.len() + members.len());
                return Err(self.wrong(&path, &found, "at most 256 in all groups"));
            }
            for (position, of) in members.iter().enumerate() {
                let path = format!("{path}.members[{position}]");
                all.push(self.member(Place { of, path: &path }, components)?);
            }
        }
        Ok(all)
    }

    fn member(&self, place: Place<'_>, components: &[Component]) -> Result<Member, Malformed> {
        Ok(Member {
            component: self.named(place, components)?,
            keys: self.each(place, "groupByKeyPaths")?,
            filters: self.each(place, "filters")?,
            field: self.field(&format!("{}.groupByKeyPaths", place.path)),
        })
    }

    /// The expressions in a list.
    fn each(&self, place: Place<'_>, field: &str) -> Result<Vec<Asked>, Malformed> {
        let expressions = self.list(place, field)?.iter().enumerate();
        let path = |at: usize| format!("{}.{field}[{at}]", place.path);
        expressions.map(|(at, found)| self.expression(&path(at), found)).collect()
    }
}

fn join(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// A text, with its quotes.
fn as_text(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| value.is_string())
}

#[cfg(test)]
mod tests;
