package kinds

import "k8s.io/kube-openapi/pkg/validation/spec"

// The models of the metadata of objects and lists, to which the schemas of custom kinds refer.
const (
	ObjectMetaModel = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	ListMetaModel   = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
)

// The prefixes of references to a model.
const (
	refPrefixV2 = "#/definitions/"
	refPrefixV3 = "#/components/schemas/"
)

// OpenAPI is what clients read of the schema of a custom kind.
type OpenAPI struct {
	// Schema returns the schema of the kind's objects in a document of OpenAPI v2, which can say less, or
	// v3. Each call makes a new one, which is the caller's. It refers to no model but ObjectMetaModel.
	Schema func(v2 bool) *spec.Schema
	// PreserveUnknownFields means that objects may have fields that the schema lacks, at any depth.
	PreserveUnknownFields bool
}

// ModelRef returns a reference to a model in a document of OpenAPI v2 or v3.
func ModelRef(model string, v2 bool) spec.Ref {
	if v2 {
		return spec.MustCreateRef(refPrefixV2 + model)
	}
	return spec.MustCreateRef(refPrefixV3 + model)
}
