package scheme_test

import (
	"bytes"
	"encoding/json"
	"testing"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/garboard/garboard/libs/scheme"
)

// TestMigrationsAreStoredAsKubernetesDoes checks that etcd holds protobuf of v1beta1, as Kubernetes' own type of
// that version encodes it, and that every other form is read too.
func TestMigrationsAreStoredAsKubernetesDoes(t *testing.T) {
	table := scheme.New()
	kind := scheme.For[*storagemigrationv1.StorageVersionMigration](table)
	of := metav1.GroupResource{Group: "example.org", Resource: "gadgets"}
	conditions := []metav1.Condition{{Type: "Running", Status: metav1.ConditionTrue, Reason: "MigrationRunning", Message: "m"}}
	obj := &storagemigrationv1.StorageVersionMigration{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storagemigration.k8s.io/v1", Kind: "StorageVersionMigration"},
		ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u", Labels: map[string]string{"a": "b"}},
		Spec:       storagemigrationv1.StorageVersionMigrationSpec{Resource: of},
		Status:     storagemigrationv1.StorageVersionMigrationStatus{Conditions: conditions, ResourceVersion: "7"},
	}
	was := obj.DeepCopy()
	data, err := table.EncodeStorage(kind, obj)
	if err != nil {
		t.Fatal(err)
	}
	if !apiequality.Semantic.DeepEqual(obj, was) {
		t.Errorf("encoding changed the object to %+v", obj)
	}
	beta := &storagemigrationv1beta1.StorageVersionMigration{
		TypeMeta: metav1.TypeMeta{APIVersion: "storagemigration.k8s.io/v1beta1", Kind: "StorageVersionMigration"}, ObjectMeta: obj.ObjectMeta,
		Spec:   storagemigrationv1beta1.StorageVersionMigrationSpec{Resource: of},
		Status: storagemigrationv1beta1.StorageVersionMigrationStatus{Conditions: conditions, ResourceVersion: "7"},
	}
	known := runtime.NewScheme()
	if err := storagemigrationv1beta1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	want, err := runtime.Encode(protobuf.NewSerializer(known, known), beta)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, want) {
		t.Errorf("etcd holds %q, want %q", data, want)
	}
	if scheme.Plain(data, obj) == nil {
		t.Error("its message cannot be sent as it is")
	}
	inV1, err := runtime.Encode(protobuf.NewSerializer(table.Scheme(), table.Scheme()), obj)
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := json.Marshal(beta)
	if err != nil {
		t.Fatal(err)
	}
	for name, stored := range map[string][]byte{"v1beta1": data, "v1": inV1, "JSON": inJSON} {
		read, err := table.DecodeStorage(kind, stored)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !apiequality.Semantic.DeepEqual(read, obj) {
			t.Errorf("%s: read %+v, want %+v", name, read, obj)
		}
	}
	other := bytes.Replace(data, []byte("StorageVersionMigration"), []byte("StorageVersionMigratioN"), 1)
	if read, err := table.DecodeStorage(kind, other); err == nil {
		t.Errorf("another kind was read as %+v", read)
	}
}
