package custom

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// rules are what the schema of one version says of an object. They are read-only and safe for concurrent
// use.
type rules struct {
	structural *schema.Structural
	// keeps means that fields that the schema does not have are kept.
	keeps bool
	// whole and status check an object, and its status, by the schema's OpenAPI part.
	whole, status validation.SchemaValidator
	// expressions checks the schema's CEL rules; nil if it has none.
	expressions *cel.Validator
	// openAPI is what clients read of the schema.
	openAPI *kinds.OpenAPI
}

// rulesOf returns the rules of a version's schema, which may be nil. keeps is the definition's
// preserveUnknownFields.
func rulesOf(of *apiextensions.CustomResourceValidation, keeps bool) (*rules, error) {
	r := &rules{keeps: keeps}
	var whole, status *apiextensions.JSONSchemaProps
	if of != nil && of.OpenAPIV3Schema != nil {
		whole = of.OpenAPIV3Schema
		if part, ok := whole.Properties["status"]; ok {
			status = &part
		}
		var err error
		if r.structural, err = schema.NewStructural(whole); err != nil {
			return nil, fmt.Errorf("reading the schema: %w", err)
		}
		if !keeps {
			// What a default has that the schema does not would be pruned from an object.
			r.structural = r.structural.DeepCopy()
			if err := defaulting.PruneDefaults(r.structural); err != nil {
				return nil, fmt.Errorf("pruning the defaults of the schema: %w", err)
			}
		}
	}
	var err error
	if r.whole, _, err = validation.NewSchemaValidator(whole); err != nil {
		return nil, fmt.Errorf("compiling the schema: %w", err)
	}
	if r.status, _, err = validation.NewSchemaValidator(status); err != nil {
		return nil, fmt.Errorf("compiling the schema of the status: %w", err)
	}
	if err := BoundQuantities(); err != nil {
		return nil, err
	}
	r.expressions = cel.NewValidator(r.structural, true, celconfig.PerCallLimit)
	r.openAPI = openAPIOf(of, r.structural, keeps)
	return r, nil
}

// Prune removes what the schema does not have, and what is null where the schema allows no null, unless how keeps
// that. It returns the paths of the removed fields if asked for them. An error means that the object's metadata, or that of
// an object within it, is of a wrong type; if lenient, such metadata is removed instead, as for what etcd
// holds.
func (r *rules) Prune(u *unstructured.Unstructured, lenient bool, how kinds.Pruning) (unknown []string, err error) {
	apiVersion, kind, plain := u.GetAPIVersion(), u.GetKind(), plainMetadata(u.Object)
	var meta *metav1.ObjectMeta
	found := false
	if !plain {
		meta, found, unknown, err = objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{
			DropMalformedFields: lenient, ReturnUnknownFieldPaths: how.Report,
		})
		if err != nil {
			return nil, err
		}
	}
	metadata := u.Object["metadata"]
	if !r.keeps {
		unknown = append(unknown, pruning.PruneWithOptions(u.Object, r.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: how.Report})...)
		if !how.KeepNulls {
			defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, r.structural)
		}
	}
	failed, paths := objectmeta.CoerceWithOptions(nil, u.Object, r.structural, false, objectmeta.CoerceOptions{
		DropInvalidFields: lenient, ReturnUnknownFieldPaths: how.Report,
	})
	if failed != nil {
		return nil, failed
	}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	switch {
	case plain:
		u.Object["metadata"] = metadata
	case found:
		if lenient && meta.Generation == 0 {
			meta.Generation = 1 // Objects of very old versions of Kubernetes have none.
		}
		if err := objectmeta.SetObjectMeta(u.Object, meta); err != nil {
			return nil, err
		}
	}
	return append(unknown, paths...), nil
}

// Default sets the defaults of the schema.
func (r *rules) Default(u *unstructured.Unstructured) {
	if r.structural != nil {
		defaulting.Default(u.Object, r.structural)
	}
}
