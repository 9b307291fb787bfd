package custom

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
)

type (
	crd     = apiextensionsv1.CustomResourceDefinition
	version = apiextensionsv1.CustomResourceDefinitionVersion
)

// Definitions returns the definitions of the versions that a CustomResourceDefinition serves, and of the one
// that etcd holds. They have the names that the definition's status has accepted.
//
// What a definition has is its author's choice: it is an error if the libraries that read it panic.
func Definitions(of *crd, converters *conversion.Converters) (made []*kinds.Definition, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			made, err = nil, fmt.Errorf("reading %s: panic: %v", of.Name, problem)
		}
	}()
	stored, err := customkinds.StorageVersion(of)
	if err != nil {
		return nil, err
	}
	all := map[string]*rules{}
	for i := range of.Spec.Versions {
		one := &of.Spec.Versions[i]
		if all[one.Name], err = rulesOfVersion(of, one); err != nil {
			return nil, fmt.Errorf("reading version %s of %s: %w", one.Name, of.Name, err)
		}
	}
	ways := &conversions{versions: all}
	if ways.by, err = converters.Of(of); err != nil {
		return nil, err
	}
	for i := range of.Spec.Versions {
		one := &of.Spec.Versions[i]
		if !one.Served && !one.Storage {
			continue
		}
		definition, err := define(of, one, stored, ways)
		if err != nil {
			return nil, fmt.Errorf("reading version %s of %s: %w", one.Name, of.Name, err)
		}
		made = append(made, definition)
	}
	return made, nil
}

// rulesOfVersion returns the rules of a version's schema.
func rulesOfVersion(of *crd, one *version) (*rules, error) {
	var in *apiextensions.CustomResourceValidation
	if one.Schema != nil {
		in = &apiextensions.CustomResourceValidation{}
		if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(one.Schema.DeepCopy(), in, nil); err != nil {
			return nil, err
		}
	}
	return rulesOf(in, of.Spec.PreserveUnknownFields)
}

// define returns the definition of one version.
func define(of *crd, one *version, stored string, ways *conversions) (*kinds.Definition, error) {
	r := ways.versions[one.Name]
	labels, values, err := selectable(one.SelectableFields)
	if err != nil {
		return nil, err
	}
	kind := customkinds.Kind(of, one, stored)
	k := &definer{rules: r, namespaced: kind.Namespaced}
	definition := &kinds.Definition{
		Kind: kind, Level: kinds.Full, Columns: columnsOf(one.AdditionalPrinterColumns), FieldLabels: labels, Fields: values, ConditionalUpdate: true,
		Default:  func(obj scheme.Object) { r.Default(content(obj)) },
		Validate: func(obj scheme.Object) field.ErrorList { return k.validate(content(obj)) },
		Update: kinds.Change{
			Prepare:  func(obj, old scheme.Object) { k.prepareUpdate(content(obj), content(old)) },
			Validate: func(obj, old scheme.Object) field.ErrorList { return k.validateUpdate(content(obj), content(old)) },
		},
		PrepareForCreate: func(obj scheme.Object) { k.prepare(content(obj)) },
		Prune:            func(obj scheme.Object, how kinds.Pruning) ([]string, error) { return r.Prune(content(obj), false, how) },
		Subresources:     map[string]kinds.Change{},
		OpenAPI:          r.openAPI,
		Costly:           r.expressions != nil,
	}
	if of.DeletionTimestamp != nil {
		definition.Closed = "create not allowed while custom resource definition is terminating"
	}
	if storage := kind.Storage.GroupVersion(); kind.Stored() {
		definition.Restore = func(obj scheme.Object) error { return ways.restore(content(obj), storage) }
	} else {
		definition.ToStored, definition.FromStored = ways.pruned(storage), ways.pruned(kind.GroupVersion())
	}
	if parts := one.Subresources; parts != nil {
		k.status, k.scale = parts.Status != nil, parts.Scale
	}
	if k.status {
		definition.Subresources["status"] = kinds.Change{
			Prepare:  func(obj, old scheme.Object) { prepareStatus(content(obj), content(old)) },
			Validate: func(obj, old scheme.Object) field.ErrorList { return k.validateStatus(content(obj), content(old)) },
		}
	}
	if k.scale != nil {
		definition.Replicas = replicasOf(k.scale)
	}
	return definition, nil
}

// definer is what the functions of a definition know of their version.
type definer struct {
	rules      *rules
	namespaced bool
	status     bool
	scale      *apiextensionsv1.CustomResourceSubresourceScale
}

func (k *definer) prepare(u *unstructured.Unstructured) {
	if k.status {
		delete(u.Object, "status")
	}
	u.SetGeneration(1)
}

// prepareUpdate keeps the status if it has a subresource of its own. Whatever else changes, except the
// metadata, counts as a generation.
func (k *definer) prepareUpdate(u, old *unstructured.Unstructured) {
	if k.status {
		delete(u.Object, "status")
		if status, ok := old.Object["status"]; ok {
			u.Object["status"] = status
		}
	}
	if !kinds.EqualFields(u.Object, old.Object, "metadata") {
		u.SetGeneration(old.GetGeneration() + 1)
	}
}

// prepareStatus restores all but the status, and the owners of its fields.
func prepareStatus(u, old *unstructured.Unstructured) {
	status, ok := u.Object["status"]
	owners := u.GetManagedFields()
	u.Object = old.DeepCopy().Object
	u.SetManagedFields(owners)
	delete(u.Object, "status")
	if ok {
		u.Object["status"] = status
	}
}

func (k *definer) validate(u *unstructured.Unstructured) field.ErrorList {
	errs := validateMetadata(u, k.namespaced)
	errs = append(errs, validateScale(u, k.scale, true)...)
	return append(errs, k.rules.Validate(u)...)
}

func (k *definer) validateUpdate(u, old *unstructured.Unstructured) field.ErrorList {
	errs := validateMetadataUpdate(u, old)
	errs = append(errs, validateScale(u, k.scale, true)...)
	return append(errs, k.rules.ValidateUpdate(u, old)...)
}

func (k *definer) validateStatus(u, old *unstructured.Unstructured) field.ErrorList {
	errs := validateMetadataUpdate(u, old)
	errs = append(errs, validateScale(u, k.scale, false)...)
	return append(errs, k.rules.ValidateStatus(u, old)...)
}

// content returns an object of a custom kind, which is always unstructured.
func content(obj scheme.Object) *unstructured.Unstructured {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		panic(fmt.Sprintf("an object of a custom kind is a %T", obj))
	}
	return u
}
