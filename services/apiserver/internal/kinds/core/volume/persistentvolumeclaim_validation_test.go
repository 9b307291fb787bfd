package volume

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// amounts returns a resource list from pairs of name and quantity.
func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func newClaim() *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns", ResourceVersion: "1"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
		Resources:   corev1.VolumeResourceRequirements{Requests: amounts("storage", "10Gi")},
	}}
	DefaultPersistentVolumeClaim(c)
	return c
}

func TestPersistentVolumeClaim(t *testing.T) {
	type claim = *corev1.PersistentVolumeClaim
	for name, tc := range map[string]struct {
		change func(claim)
		want   []string
	}{
		"fine":     {change: func(claim) {}},
		"no modes": {change: func(c claim) { c.Spec.AccessModes = nil }, want: []string{"spec.accessModes: Required value: at least 1 access mode is required"}},
		"an unknown mode": {
			change: func(c claim) { c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"Fly"} },
			want:   []string{`spec.accessModes: Unsupported value: "Fly": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`},
		},
		"alone and not": {
			change: func(c claim) { c.Spec.AccessModes = append(c.Spec.AccessModes, "ReadWriteOncePod") },
			want:   []string{"spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"},
		},
		"no size":      {change: func(c claim) { c.Spec.Resources.Requests = nil }, want: []string{"spec.resources[storage]: Required value"}},
		"an empty one": {change: func(c claim) { c.Spec.Resources.Requests = amounts("storage", "0") }, want: []string{`spec.resources[storage]: Invalid value: "0": must be greater than zero`}},
		"a bad selector": {
			change: func(c claim) { c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "-"}} },
			want:   []string{`spec.selector.matchLabels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
		},
		"no class":       {change: func(c claim) { c.Spec.StorageClassName = new("") }},
		"a bad class":    {change: func(c claim) { c.Spec.StorageClassName = new("A") }, want: []string{`spec.storageClassName: Invalid value: "A": ` + badSubdomain}},
		"bad attributes": {change: func(c claim) { c.Spec.VolumeAttributesClassName = new("A") }, want: []string{`spec.volumeAttributesClassName: Invalid value: "A": ` + badSubdomain}},
		"a bad mode of the volume": {
			change: func(c claim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeMode("Tape")) },
			want:   []string{`spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"`},
		},
		"an empty source": {
			change: func(c claim) { c.Spec.DataSource = &corev1.TypedLocalObjectReference{} },
			want: []string{
				"spec.dataSource.name: Required value", "spec.dataSource.kind: Required value",
				`spec.dataSource: Invalid value: "": must be 'PersistentVolumeClaim' when referencing the default apiGroup`,
			},
		},
		"a bad group": {
			change: func(c claim) {
				c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new("A"), Kind: "K", Name: "n", Namespace: new("B")}
			},
			want: []string{
				`spec.dataSourceRef.apiGroup: Invalid value: "A": ` + badSubdomain,
				`spec.dataSourceRef.namespace: Invalid value: "B": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			},
		},
		"two sources": {
			change: func(c claim) {
				c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "a"}
				c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "b"}
			},
			want: []string{`spec: Invalid value: {}: must match dataSourceRef`},
		},
		"a source and one elsewhere": {
			change: func(c claim) {
				c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "a"}
				c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "a", Namespace: new("ns")}
			},
			want: []string{`spec: Invalid value: {}: may not be specified when dataSourceRef.namespace is specified`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaim()
			tc.change(c)
			errortest.Exactly(t, validatePersistentVolumeClaim(c), tc.want...)
		})
	}
}

func TestPersistentVolumeClaimUpdate(t *testing.T) {
	type claim = *corev1.PersistentVolumeClaim
	const immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
	const beta = corev1.BetaStorageClassAnnotation
	bound := func(c claim) {
		c.Status.Phase, c.Spec.VolumeName = corev1.ClaimBound, "pv"
		c.Status.Capacity = amounts("storage", "5Gi")
	}
	attributed := func(c claim) {
		bound(c)
		c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName = new("gold"), new("gold")
	}
	for name, tc := range map[string]struct {
		old, change func(claim)
		want        []string
	}{
		"nothing":                 {},
		"labels":                  {change: func(c claim) { c.Labels = map[string]string{"a": "b"} }},
		"the volume, once":        {change: func(c claim) { c.Spec.VolumeName = "pv" }},
		"the volume, again":       {old: bound, change: func(c claim) { c.Spec.VolumeName = "other" }, want: []string{immutable}},
		"growth of a bound one":   {old: bound, change: func(c claim) { c.Spec.Resources.Requests = amounts("storage", "20Gi") }},
		"growth of a pending one": {change: func(c claim) { c.Spec.Resources.Requests = amounts("storage", "20Gi") }, want: []string{immutable}},
		"growth taken back":       {old: bound, change: func(c claim) { c.Spec.Resources.Requests = amounts("storage", "6Gi") }},
		"less than it has":        {old: bound, change: func(c claim) { c.Spec.Resources.Requests = amounts("storage", "5Gi") }, want: []string{"spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"}},
		"modes":                   {change: func(c claim) { c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"ReadWriteMany"} }, want: []string{immutable}},
		"a class, later":          {change: func(c claim) { c.Spec.StorageClassName = new("fast") }},
		"another class":           {old: func(c claim) { c.Spec.StorageClassName = new("fast") }, change: func(c claim) { c.Spec.StorageClassName = new("slow") }, want: []string{immutable}},
		"the class to the field":  {old: func(c claim) { c.Annotations = map[string]string{beta: "fast"} }, change: func(c claim) { c.Annotations, c.Spec.StorageClassName = nil, new("fast") }},
		"another class to the field": {
			old: func(c claim) { c.Annotations = map[string]string{beta: "fast"} }, change: func(c claim) { c.Spec.StorageClassName = new("slow") }, want: []string{immutable},
		},
		"another annotation": {
			old: func(c claim) { c.Annotations = map[string]string{beta: "fast"} }, change: func(c claim) { c.Annotations = map[string]string{beta: "slow"} },
			want: []string{`metadata.annotations[volume.beta.kubernetes.io/storage-class]: Invalid value: "slow": field is immutable`},
		},
		"the mode of the volume": {
			change: func(c claim) { c.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) },
			want:   []string{immutable, `volumeMode: Invalid value: "Block": field is immutable`},
		},
		"attributes of a pending one": {change: func(c claim) { c.Spec.VolumeAttributesClassName = new("gold") }, want: []string{immutable}},
		"attributes":                  {old: bound, change: func(c claim) { c.Spec.VolumeAttributesClassName = new("gold") }},
		"other attributes":            {old: attributed, change: func(c claim) { c.Spec.VolumeAttributesClassName = new("silver") }},
		"attributes that it never got": {
			old:    func(c claim) { attributed(c); c.Status.CurrentVolumeAttributesClassName = nil },
			change: func(c claim) { c.Spec.VolumeAttributesClassName = nil },
		},
		"no attributes": {
			old: attributed, change: func(c claim) { c.Spec.VolumeAttributesClassName = nil },
			want: []string{"spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"},
		},
		"empty attributes": {
			old: attributed, change: func(c claim) { c.Spec.VolumeAttributesClassName = new("") },
			want: []string{"spec.volumeAttributesClassName: Forbidden: update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := newClaim()
			if tc.old != nil {
				tc.old(old)
			}
			c := old.DeepCopy()
			if tc.change != nil {
				tc.change(c)
			}
			errs := validatePersistentVolumeClaimUpdate(c, old)
			for i := range errs {
				// The difference is on lines of its own.
				errs[i].Detail, _, _ = strings.Cut(errs[i].Detail, "\n")
			}
			errortest.Exactly(t, errs, tc.want...)
		})
	}
	c := newClaim()
	c.Spec.AccessModes = nil
	c.Status.Capacity, c.Status.AllocatedResources = amounts("storage", "-1"), amounts("cpu", "1", "example.com/x", "1", "storage", "-2")
	c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		"-": "NodeResizePending", "storage": "NodeResizeInProgress", "example.com/x": "Odd",
	}
	errortest.Exactly(t, validatePersistentVolumeClaimStatus(c, c),
		"Spec.accessModes: Required value",
		"status.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
		`status.allocatedResourceStatuses: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`status.allocatedResourceStatuses: Unsupported value: "example.com/x": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"`,
		`status.allocatedResources: Unsupported value: "cpu": supported values: "storage"`,
		"status.allocatedResources[storage]: Invalid value: -2: must be a valid resource quantity")
	unversioned := newClaim()
	unversioned.ResourceVersion = ""
	errortest.Contain(t, validatePersistentVolumeClaimStatus(unversioned, newClaim()), "resourceVersion: Required value")
	changed := newClaim()
	changed.Spec.AccessModes[0] = "ReadWriteMany"
	if errs := validatePersistentVolumeClaimUpdate(changed, newClaim()); len(errs) != 1 || errs[0].Type != field.ErrorTypeForbidden || !strings.Contains(errs[0].Detail, "ReadWriteMany") {
		t.Errorf("got errors %v, want the difference", errs)
	}
}
