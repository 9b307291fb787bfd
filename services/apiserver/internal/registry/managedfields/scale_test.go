package managedfields_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// scaled begins a change of the scale of a Deployment, whose creator "me" owns its 3 replicas.
func scaled(t *testing.T) (*managedfields.Scaled, *appsv1.Deployment, *autoscalingv1.Scale) {
	t.Helper()
	table := scheme.New()
	owners, kind := managedfields.New(managedfields.Config{Table: table}), scheme.For[*appsv1.Deployment](table)
	workload := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Paused: true}}
	owners.Update(kind, "", kind.New(), workload, "me")
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}, Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	s, err := owners.Scale(kind, workload, scale, []string{"spec", "replicas"})
	if err != nil {
		t.Fatal(err)
	}
	return s, workload, scale
}

// ownedBy returns the fields of each owner: "manager subresource: fields".
func ownedBy(entries []metav1.ManagedFieldsEntry) []string {
	all := map[string]bool{}
	for _, entry := range entries {
		all[strings.TrimSpace(entry.Manager+" "+entry.Subresource)+": "+entry.FieldsV1.String()] = true
	}
	return slices.Sorted(maps.Keys(all))
}

const (
	restOfMe   = `me: {"f:spec":{"f:paused":{}}}`
	ofReplicas = ` scale: {"f:spec":{"f:replicas":{}}}`
)

// TestScale: what owns a Scale's replicas owns the workload's.
func TestScale(t *testing.T) {
	s, workload, scale := scaled(t)
	before := ownedBy(workload.ManagedFields)
	wanted := scale.DeepCopy()
	wanted.Spec.Replicas = 5
	entries, err := s.Update(wanted, "scaler")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ownedBy(entries), []string{restOfMe, "scaler" + ofReplicas}; !slices.Equal(got, want) {
		t.Errorf("after scaling, owned by %q, want %q", got, want)
	}
	if !slices.Equal(ownedBy(workload.ManagedFields), before) || scale.ManagedFields != nil || wanted.ManagedFields != nil {
		t.Error("the workload or its scale has changed")
	}
	same, err := s.Update(scale.DeepCopy(), "scaler")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ownedBy(same), []string{restOfMe, `me: {"f:spec":{"f:replicas":{}}}`}; !slices.Equal(got, want) {
		t.Errorf("after scaling to the same, owned by %q, want %q", got, want)
	}
}

func applied(fields map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": map[string]any{"name": "web"}, "spec": fields,
	}}
}

func TestApplyScale(t *testing.T) {
	s, _, _ := scaled(t)
	wanted := applied(map[string]any{"replicas": int64(7)})
	_, _, err := s.Apply(wanted, "applier", false)
	if want := `Apply failed with 1 conflict: conflict with "me" using autoscaling/v1: .spec.replicas`; !apierrors.IsConflict(err) || err.Error() != want {
		t.Errorf("applying without force: %v, want %s", err, want)
	}
	obj, entries, err := s.Apply(wanted, "applier", true)
	if err != nil {
		t.Fatal(err)
	}
	scale, ok := obj.(*autoscalingv1.Scale)
	if !ok || scale.Spec.Replicas != 7 {
		t.Errorf("applied to %+v", obj)
	}
	if got, want := ownedBy(entries), []string{"applier" + ofReplicas, restOfMe}; !slices.Equal(got, want) {
		t.Errorf("after applying, owned by %q, want %q", got, want)
	}
}

// TestRefusals: an error that is no API error is a 500 without a reason.
func TestRefusals(t *testing.T) {
	s, _, _ := scaled(t)
	_, _, err := s.Apply(applied(map[string]any{"rocket": int64(7)}), "applier", false)
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Code != http.StatusInternalServerError || status.Status().Reason != "" || status.Status().Status != metav1.StatusFailure ||
		!strings.Contains(err.Error(), ".spec.rocket: field not declared in schema") {
		t.Errorf("applying an unknown field: %+v", err)
	}
	named := applied(map[string]any{"replicas": int64(7)})
	named.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x"}})
	if _, _, err := s.Apply(named, "applier", false); !apierrors.IsBadRequest(err) {
		t.Errorf("applying owners: %v", err)
	}
}

// TestScaleOfFaultyOwners has owners of a Deployment that cannot be read.
func TestScaleOfFaultyOwners(t *testing.T) {
	_, workload, scale := scaled(t)
	table := scheme.New()
	workload.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1("{")
	_, err := managedfields.New(managedfields.Config{Table: table}).
		Scale(scheme.For[*appsv1.Deployment](table), workload, scale, []string{"spec", "replicas"})
	if err == nil || !strings.HasPrefix(err.Error(), "reading who owns the replicas of web: ") {
		t.Errorf("scaling: %v", err)
	}
}
