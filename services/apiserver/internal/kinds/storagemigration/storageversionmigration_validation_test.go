package storagemigration

import (
	"testing"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const (
	label     = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
	subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)

// aMigration returns a stored migration.
func aMigration(version string, conditions ...metav1.Condition) migration {
	return &storagemigrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: "m", ResourceVersion: "1"},
		Spec:       storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: "example.com", Resource: "things"}},
		Status:     storagemigrationv1.StorageVersionMigrationStatus{ResourceVersion: version, Conditions: conditions},
	}
}

func TestNewMigrations(t *testing.T) {
	for name, tc := range map[string]struct {
		of   metav1.GroupResource
		want []string
	}{
		"a custom kind": {metav1.GroupResource{Group: "example.com", Resource: "things"}, nil},
		"a core kind":   {metav1.GroupResource{Resource: "things"}, nil},
		"no resource":   {metav1.GroupResource{Group: "example.com"}, []string{"spec.resource.resource: Required value: resource is required to be set"}},
		"a bad resource": {
			metav1.GroupResource{Group: "example.com", Resource: "."},
			[]string{`spec.resource.resource: Invalid value: ".": ` + label},
		},
		"a bad group": {
			metav1.GroupResource{Group: "-", Resource: "things"},
			[]string{`spec.resource.group: Invalid value: "-": ` + subdomain},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := aMigration("")
			m.Spec.Resource = tc.of
			errortest.Exactly(t, validateStorageVersionMigration(m), tc.want...)
		})
	}
}

func TestUpdatesOfMigrations(t *testing.T) {
	old := aMigration("")
	errortest.Exactly(t, validateStorageVersionMigrationUpdate(aMigration(""), old))
	labelled := aMigration("")
	labelled.Labels = map[string]string{"a": "b"}
	errortest.Exactly(t, validateStorageVersionMigrationUpdate(labelled, old))
	other := aMigration("")
	other.Spec.Resource.Group = ""
	errortest.Exactly(t, validateStorageVersionMigrationUpdate(other, old),
		`spec: Invalid value: {"resource":{"group":"","resource":"things"}}: field is immutable`)
	none := aMigration("")
	none.Spec.Resource.Resource = ""
	errortest.Exactly(t, validateStorageVersionMigrationUpdate(none, old),
		"spec.resource.resource: Required value: resource is required to be set",
		`spec: Invalid value: {"resource":{"group":"example.com","resource":""}}: field is immutable`)
}

func TestStatusOfMigrations(t *testing.T) {
	running, ended := condition("Running", "True"), condition("Running", "False")
	succeeded, failed := condition("Succeeded", "True"), condition("Failed", "True")
	unreasoned := running
	unreasoned.Reason = ""
	for name, tc := range map[string]struct {
		old, next migration
		want      []string
	}{
		"begun":     {aMigration(""), aMigration("123", running), nil},
		"succeeded": {aMigration("123", running), aMigration("123", ended, succeeded), nil},
		"failed":    {aMigration("123", running), aMigration("123", ended, failed), nil},
		"as it was": {aMigration("123", succeeded), aMigration("123", succeeded), nil},
		"another revision": {
			aMigration("123"), aMigration("456"), []string{`status.resourceVersion: Invalid value: "456": field is immutable`},
		},
		"no revision any more": {aMigration("123"), aMigration(""), []string{`status.resourceVersion: Invalid value: "": field is immutable`}},
		"no number": {
			aMigration(""), aMigration("abc"),
			[]string{`status.resourceVersion: Invalid value: "abc": resource version is not well formed: abc`},
		},
		"zero": {aMigration(""), aMigration("0"), []string{`status.resourceVersion: Invalid value: "0": resource version is not well formed: 0`}},
		"without a reason": {
			aMigration(""), aMigration("", unreasoned), []string{"status.conditions[0].reason: Required value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			errortest.Exactly(t, validateStorageVersionMigrationStatus(tc.next, tc.old), tc.want...)
		})
	}
	for want, both := range map[string][2]migration{
		"Both success and failed conditions cannot be true at the same time": {aMigration("", running), aMigration("", succeeded, failed)},
		"Success condition cannot be set to false once it is true":           {aMigration("", succeeded), aMigration("", condition("Succeeded", "False"))},
		"Failed condition cannot be set to false once it is true":            {aMigration("", failed), aMigration("")},
	} {
		errs := validateStorageVersionMigrationStatus(both[1], both[0])
		if len(errs) != 1 || errs[0].Field != "status.conditions" || errs[0].Detail != want {
			t.Errorf("got %v, want %q", errs, want)
		}
	}
}
