package storage

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "x", ResourceVersion: "1"} }

func TestDriver(t *testing.T) {
	type driver = *storagev1.CSIDriver
	newDriver := func() driver {
		d := &storagev1.CSIDriver{ObjectMeta: meta()}
		defaultCSIDriver(d)
		return d
	}
	for name, tc := range map[string]struct {
		change func(driver)
		want   []string
	}{
		"fine": {change: func(driver) {}},
		"nothing": {change: func(d driver) { d.Spec = storagev1.CSIDriverSpec{} }, want: []string{
			"spec.attachedRequired: Required value", "spec.podInfoOnMount: Required value", "spec.storageCapacity: Required value",
			"spec.seLinuxMount: Required value", "spec.preventPodSchedulingIfMissing: Required value",
		}},
		"an unknown policy": {
			change: func(d driver) { d.Spec.FSGroupPolicy = new(storagev1.FSGroupPolicy("Odd")) },
			want:   []string{`spec.fsGroupPolicy: Unsupported value: "Odd": supported values: "File", "None", "ReadWriteOnceWithFSType"`},
		},
		"tokens": {
			change: func(d driver) {
				d.Spec.TokenRequests = []storagev1.TokenRequest{
					{Audience: "a", ExpirationSeconds: new(int64(599))}, {Audience: "b", ExpirationSeconds: new(int64(1<<32 + 1))}, {Audience: "a"},
				}
			},
			want: []string{
				"spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
				"spec.tokenRequests[1].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
				`spec.tokenRequests[2].audience: Duplicate value: "a"`,
			},
		},
		"an unknown mode": {
			change: func(d driver) { d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{"Odd"} },
			want:   []string{`spec.volumeLifecycleModes: Unsupported value: "Odd": supported values: "Persistent", "Ephemeral"`},
		},
		"a short period": {
			change: func(d driver) { d.Spec.NodeAllocatableUpdatePeriodSeconds = new(int64(9)) },
			want:   []string{"spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds"},
		},
		"tokens in secrets": {
			change: func(d driver) { d.Spec.ServiceAccountTokenInSecrets = new(true) },
			want:   []string{"spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver()
			tc.change(d)
			errortest.Exactly(t, validateDriver(d), tc.want...)
		})
	}
	kind, old := CSIDriver(), newDriver()
	for name, tc := range map[string]struct {
		change     func(driver)
		generation int64
		warnings   int
	}{
		"nothing": {change: func(driver) {}},
		"labels":  {change: func(d driver) { d.Labels = map[string]string{"a": "b"} }},
		"policy":  {change: func(d driver) { d.Spec.FSGroupPolicy = new(storagev1.FileFSGroupPolicy) }, generation: 1},
		"tokens":  {change: func(d driver) { d.Spec.TokenRequests = []storagev1.TokenRequest{{}} }, generation: 1, warnings: 1},
		"tokens in secrets": {change: func(d driver) {
			d.Spec.TokenRequests, d.Spec.ServiceAccountTokenInSecrets = []storagev1.TokenRequest{{}}, new(false)
		}, generation: 1},
	} {
		d := newDriver()
		tc.change(d)
		if got := kind.Warnings(d); len(got) != tc.warnings {
			t.Errorf("%s: got warnings at creation %q", name, got)
		}
		if got := kind.Update.Warnings(d, old); len(got) != tc.warnings {
			t.Errorf("%s: got warnings %q", name, got)
		}
		if got := kind.Update.Warnings(d, d); len(got) != 0 {
			t.Errorf("%s: got warnings without a change %q", name, got)
		}
		if kind.Update.Prepare(d, old); d.Generation != tc.generation {
			t.Errorf("%s: got generation %d", name, d.Generation)
		}
	}
	changed := newDriver()
	changed.Spec.AttachRequired, changed.Spec.VolumeLifecycleModes = new(false), []storagev1.VolumeLifecycleMode{"Ephemeral"}
	changed.Spec.PodInfoOnMount = new(true)
	errortest.Exactly(t, validateDriverUpdate(changed, newDriver()),
		"spec.attachedRequired: Invalid value: false: field is immutable", `spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable`)
}
