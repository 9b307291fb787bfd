package apiextensions

import (
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

type crd = *apiextensionsv1.CustomResourceDefinition

// CustomResourceDefinition defines the kind CustomResourceDefinition.
func CustomResourceDefinition() *kinds.Definition {
	rules := kinds.SpecStatusOf(func(c crd) (*apiextensionsv1.CustomResourceDefinitionSpec, *apiextensionsv1.CustomResourceDefinitionStatus) {
		return &c.Spec, &c.Status
	})
	return kinds.Of[crd]{
		Level:   kinds.Full,
		Columns: customResourceDefinitionColumns(),
		Default: apiextensionsv1.SetObjectDefaults_CustomResourceDefinition,
		Create: func(c crd) {
			rules.Begin(c)
			recordStorageVersion(c)
		},
		Validate:         validateCustomResourceDefinition,
		CreationWarnings: func(c crd) []string { return schemaWarnings(c, nil) },
		Update: kinds.ChangeOf[crd]{
			Prepare: func(c, old crd) {
				rules.KeepStatus(c, old)
				recordStorageVersion(c)
			},
			Validate: validateCustomResourceDefinitionUpdate,
			Warnings: schemaWarnings,
		},
		Subresources: map[string]kinds.ChangeOf[crd]{"status": {
			Prepare:  rules.KeepSpec,
			Validate: validateCustomResourceDefinitionStatus,
		}},
		ConditionalUpdate: true,
		Costly:            true,
		Terminating:       beginDeletion,
		Held: func(c crd) bool {
			return slices.Contains(c.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
		},
	}.Definition()
}

// recordStorageVersion adds the version that etcd holds from now on to those that it has ever held.
func recordStorageVersion(c crd) {
	for _, version := range c.Spec.Versions {
		if !version.Storage {
			continue
		}
		if !slices.Contains(c.Status.StoredVersions, version.Name) {
			c.Status.StoredVersions = append(c.Status.StoredVersions, version.Name)
		}
		return
	}
}

// beginDeletion keeps a definition until its custom resources are deleted.
func beginDeletion(c crd) {
	if !slices.Contains(c.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer) {
		c.Finalizers = append(c.Finalizers, apiextensionsv1.CustomResourceCleanupFinalizer)
	}
	apihelpers.SetCRDCondition(c, apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "InstanceDeletionPending",
		Message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
	})
}
