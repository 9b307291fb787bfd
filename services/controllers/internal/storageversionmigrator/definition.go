package storageversionmigrator

import (
	"context"
	"encoding/json"
	"fmt"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/libs/scheme"
)

// definitionManager is the field manager of what Kubernetes writes into definitions.
const definitionManager = "migration-runner-controller"

type definition = *apiextensionsv1.CustomResourceDefinition

// definitionOf returns the definition of a migration's resource as etcd has it; nil if it has none.
func (r *reconciler) definitionOf(ctx context.Context, m migration) (definition, error) {
	of := m.Spec.Resource
	if of.Group == "" {
		return nil, nil
	}
	found, err := client.Of[definition](r.client).Get(ctx, "", of.Resource+"."+of.Group, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the definition of %s: %w", of.String(), err)
	}
	return found, nil
}

// markDefinition writes into the definition of a migration's resource, if there is one, that the migration runs.
func (r *reconciler) markDefinition(ctx context.Context, m migration) error {
	of, err := r.definitionOf(ctx, m)
	if of == nil {
		return err
	}
	return r.applyStatus(ctx, of, apiextensionsv1.ConditionTrue, runningReason, fmt.Sprintf("Migration %s is running", m.Name))
}

// unmarkDefinition writes into the definition how a migration has ended. If it has succeeded, and the definition's
// spec is still the one with which it began, etcd holds objects in the storage version only. Kubernetes 1.37 forgets
// the other versions after a failure too, though etcd may hold objects in them.
func (r *reconciler) unmarkDefinition(ctx context.Context, m migration) error {
	of, err := r.definitionOf(ctx, m)
	if of == nil {
		return err
	}
	if !is(m, storagemigrationv1.MigrationSucceeded) {
		return r.applyStatus(ctx, of, apiextensionsv1.ConditionFalse, "MigrationFailed", "The migration has failed")
	}
	message := "The migration has succeeded"
	if began := apihelpers.FindCRDCondition(of, apiextensionsv1.StorageMigrating); began != nil && began.ObservedGeneration == of.Generation {
		version, err := customkinds.StorageVersion(of)
		if err != nil {
			return err
		}
		of.Status.StoredVersions = []string{version}
		message += " and the stored versions have been updated"
	} else {
		message += " but the stored versions have not been updated due to a generation mismatch"
	}
	return r.applyStatus(ctx, of, apiextensionsv1.ConditionFalse, "MigrationSucceeded", message)
}

// applyStatus writes the stored versions of a definition and its condition StorageMigrating. It is a conflict if the
// definition has changed since it was read: its generation would be another one.
func (r *reconciler) applyStatus(ctx context.Context, of definition, value apiextensionsv1.ConditionStatus, reason, message string) error {
	kind := scheme.For[definition](r.client.Table())
	condition := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.StorageMigrating, Status: value, LastTransitionTime: metav1.Now(),
		Reason: reason, Message: message, ObservedGeneration: of.Generation,
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{"name": of.Name, "resourceVersion": of.ResourceVersion},
		// A field that an apply leaves out is removed if an earlier one wrote it.
		"status": map[string]any{"conditions": []any{condition}, "storedVersions": of.Status.StoredVersions},
	})
	if err != nil {
		return fmt.Errorf("encoding the status of the definition %s: %w", of.Name, err)
	}
	force := true
	err = r.client.Do(ctx, client.Call{
		Verb: "patch", Kind: kind, Name: of.Name, Subresource: "status",
		PatchType: types.ApplyYAMLPatchType, Patch: data, Options: &metav1.PatchOptions{FieldManager: definitionManager, Force: &force},
	}, nil)
	if err != nil {
		return fmt.Errorf("writing the status of the definition %s: %w", of.Name, err)
	}
	return nil
}
