package managedfields

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/garboard/garboard/libs/scheme"
)

// resource is what is written to: a kind, or a part of it.
type resource struct {
	schema.GroupKind
	subresource string
}

// filters say, by version, which fields a writer of the resource can own. What the resource takes
// from the object as it is, whatever the writer sends, nobody comes to own by writing to it.
func filters(table *scheme.Table, gvk schema.GroupVersionKind, subresource string) map[fieldpath.APIVersion]fieldpath.Filter {
	kind := table.Kind(gvk)
	if kind == nil {
		return nil // a Scale, of which each part is its writer's
	}
	filter := filterOf(kind, subresource)
	if filter == nil {
		return nil
	}
	found := map[fieldpath.APIVersion]fieldpath.Filter{}
	for _, other := range table.Kinds() {
		if other.Storage == kind.Storage {
			found[fieldpath.APIVersion(other.GroupVersion().String())] = filter
		}
	}
	return found
}

func filterOf(kind *scheme.Kind, subresource string) fieldpath.Filter {
	if only := writable()[resource{kind.GroupKind(), subresource}]; only != nil {
		return fieldpath.NewIncludeMatcherFilter(only...)
	}
	paths, ok := kept()[resource{kind.GroupKind(), subresource}]
	switch {
	case ok:
	case subresource == "" && kind.HasSubresource("status"):
		paths = []fieldpath.Path{{name("status")}}
	case subresource == "status":
		paths = []fieldpath.Path{{name("spec")}}
	}
	if len(paths) == 0 {
		return nil
	}
	return fieldpath.NewExcludeSetFilter(fieldpath.NewSet(paths...))
}

// kept are the fields that a resource keeps as they are, where it is not just the status that
// the object itself keeps, and the spec that its status does.
func kept() map[resource][]fieldpath.Path {
	spec, status := fieldpath.Path{name("spec")}, fieldpath.Path{name("status")}
	metadata := func(field string) fieldpath.Path { return fieldpath.Path{name("metadata"), name(field)} }
	requests := schema.GroupKind{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}
	return map[resource][]fieldpath.Path{
		{schema.GroupKind{Kind: "Namespace"}, "finalize"}:               {status},
		{schema.GroupKind{Kind: "Pod"}, "status"}:                       {spec, metadata("deletionTimestamp"), metadata("ownerReferences")},
		{schema.GroupKind{Group: "apps", Kind: "Deployment"}, "status"}: {spec, metadata("labels")},
		{requests, ""}:         {status, spec},
		{requests, "status"}:   {spec, {name("status"), name("conditions")}},
		{requests, "approval"}: {spec, {name("status"), name("certificate")}},
		{schema.GroupKind{Group: "storage.k8s.io", Kind: "VolumeAttachment"}, "status"}: {{name("metadata")}, spec},
		{schema.GroupKind{Group: "resource.k8s.io", Kind: "ResourceClaim"}, "status"}:   {{name("metadata")}, spec},
	}
}

// writable are the only fields that some parts of pods can change.
func writable() map[resource][]*fieldpath.SetMatcher {
	pod := schema.GroupKind{Kind: "Pod"}
	return map[resource][]*fieldpath.SetMatcher{
		{pod, "ephemeralcontainers"}: {fieldpath.MakePrefixMatcherOrDie("spec", "ephemeralContainers")},
		{pod, "resize"}: {
			fieldpath.MakePrefixMatcherOrDie("spec", "containers", fieldpath.MatchAnyPathElement(), "resources"),
			fieldpath.MakePrefixMatcherOrDie("spec", "containers", fieldpath.MatchAnyPathElement(), "resizePolicy"),
			fieldpath.MakePrefixMatcherOrDie("spec", "initContainers", fieldpath.MatchAnyPathElement(), "resources"),
			fieldpath.MakePrefixMatcherOrDie("spec", "initContainers", fieldpath.MatchAnyPathElement(), "resizePolicy"),
			fieldpath.MakePrefixMatcherOrDie("spec", "resources"),
		},
	}
}

func name(field string) fieldpath.PathElement { return fieldpath.PathElement{FieldName: &field} }
