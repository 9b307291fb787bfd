package managedfields

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/garboard/garboard/libs/scheme"
)

// resource is what a writer writes to: a kind, or a part of it.
type resource struct {
	schema.GroupKind
	subresource string
}

// filters returns, by version, which fields a writer of the resource can own. Fields that the
// resource resets to their stored value are never owned by the writer.
func filters(table *scheme.Table, gvk schema.GroupVersionKind, subresource string) map[fieldpath.APIVersion]fieldpath.Filter {
	kind := table.Kind(gvk)
	if kind == nil {
		return nil // a Scale, in which writers can own every field
	}
	found := map[fieldpath.APIVersion]fieldpath.Filter{}
	for _, other := range table.Kinds() {
		// Kubernetes asks each version of a custom kind for itself, since one may have a status and another not.
		if other.Storage != kind.Storage || kind.Custom && subresource == "" && other != kind {
			continue
		}
		of := kind
		if kind.Custom {
			of = other
		}
		if filter := filterOf(of, subresource); filter != nil {
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
	case subresource == "status" && kind.Custom && kind.HasSubresource("status"):
		paths = []fieldpath.Path{{name("metadata")}, {name("spec")}}
	case subresource == "status" && !kind.Custom:
		paths = []fieldpath.Path{{name("spec")}}
	}
	if len(paths) == 0 {
		return nil
	}
	return fieldpath.NewExcludeSetFilter(fieldpath.NewSet(paths...))
}

// kept returns the fields that a resource keeps as they are, except for the usual case: an object
// keeps its status, and its status subresource the spec.
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

// writable returns the only fields that some subresources of pods can change.
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
