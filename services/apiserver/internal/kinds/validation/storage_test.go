package validation

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

func newStorageClass() *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast", ResourceVersion: "1"}, Provisioner: "example.com/Disk", Parameters: map[string]string{"a": ""}}
	defaults.StorageClass(c)
	return c
}

func TestStorageClass(t *testing.T) {
	topology := func(expressions ...corev1.TopologySelectorLabelRequirement) corev1.TopologySelectorTerm {
		return corev1.TopologySelectorTerm{MatchLabelExpressions: expressions}
	}
	for name, tc := range map[string]struct {
		change func(*storagev1.StorageClass)
		want   []string
	}{
		"fine":               {change: func(*storagev1.StorageClass) {}},
		"a bad name":         {change: func(c *storagev1.StorageClass) { c.Name = "A" }, want: []string{`metadata.name: Invalid value: "A": ` + badSubdomain}},
		"no provisioner":     {change: func(c *storagev1.StorageClass) { c.Provisioner = "" }, want: []string{"provisioner: Required value"}},
		"a bad provisioner":  {change: func(c *storagev1.StorageClass) { c.Provisioner = "a/b/c" }, want: []string{`provisioner: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`}},
		"a parameter's name": {change: func(c *storagev1.StorageClass) { c.Parameters[""] = "x" }, want: []string{`parameters: Invalid value: "": field can not be empty.`}},
		"too much":           {change: func(c *storagev1.StorageClass) { c.Parameters["b"] = strings.Repeat("x", 256<<10) }, want: []string{"parameters: Too long: may not be more than 262144 bytes"}},
		"an unknown policy":  {change: func(c *storagev1.StorageClass) { c.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRecycle) }, want: []string{`reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"`}},
		"no mode":            {change: func(c *storagev1.StorageClass) { c.VolumeBindingMode = nil }, want: []string{"volumeBindingMode: Required value"}},
		"an unknown mode":    {change: func(c *storagev1.StorageClass) { c.VolumeBindingMode = new(storagev1.VolumeBindingMode("Later")) }, want: []string{`volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"`}},
		"topologies": {change: func(c *storagev1.StorageClass) {
			c.AllowedTopologies = []corev1.TopologySelectorTerm{topology(corev1.TopologySelectorLabelRequirement{Key: "zone", Values: []string{"a", "b"}}), topology()}
		}},
		"topologies in disarray": {
			change: func(c *storagev1.StorageClass) {
				same := topology(corev1.TopologySelectorLabelRequirement{Key: "zone", Values: []string{"a", "a"}}, corev1.TopologySelectorLabelRequirement{Key: "zone"})
				c.AllowedTopologies = []corev1.TopologySelectorTerm{same, same}
			},
			want: []string{
				`allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"`,
				`allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone"`,
				"allowedTopologies[0].matchLabelExpressions[1].values: Required value",
				`allowedTopologies[1].matchLabelExpressions[0].values[1]: Duplicate value: "a"`,
				`allowedTopologies[1].matchLabelExpressions[1].key: Duplicate value: "zone"`,
				"allowedTopologies[1].matchLabelExpressions[1].values: Required value",
				`allowedTopologies[1].matchLabelExpressions: Duplicate value: ""`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newStorageClass()
			tc.change(c)
			errortest.Exactly(t, StorageClass(c), tc.want...)
		})
	}
	many := newStorageClass()
	for i := range 513 {
		many.Parameters[fmt.Sprint(i)] = "x"
	}
	errortest.Exactly(t, StorageClass(many), "parameters: Too long: may not be more than 512 bytes")
	changed := newStorageClass()
	changed.AllowVolumeExpansion, changed.MountOptions, changed.Labels = new(true), []string{"ro"}, map[string]string{"a": "b"}
	errortest.Exactly(t, StorageClassUpdate(changed, newStorageClass()))
	changed.Parameters, changed.Provisioner = nil, "example.com/other"
	changed.ReclaimPolicy, changed.VolumeBindingMode = new(corev1.PersistentVolumeReclaimRetain), new(storagev1.VolumeBindingWaitForFirstConsumer)
	errortest.Exactly(t, StorageClassUpdate(changed, newStorageClass()),
		"parameters: Invalid value: null: field is immutable",
		`provisioner: Invalid value: "example.com/other": field is immutable`,
		`reclaimPolicy: Invalid value: "Retain": field is immutable`,
		`volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable`)
}

func newClaim() *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns", ResourceVersion: "1"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
		Resources:   corev1.VolumeResourceRequirements{Requests: amounts("storage", "10Gi")},
	}}
	defaults.PersistentVolumeClaim(c)
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
			errortest.Exactly(t, PersistentVolumeClaim(c), tc.want...)
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
			errs := PersistentVolumeClaimUpdate(c, old)
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
	errortest.Exactly(t, PersistentVolumeClaimStatus(c, c),
		"Spec.accessModes: Required value",
		"status.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
		`status.allocatedResourceStatuses: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`status.allocatedResourceStatuses: Unsupported value: "example.com/x": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"`,
		`status.allocatedResources: Unsupported value: "cpu": supported values: "storage"`,
		"status.allocatedResources[storage]: Invalid value: -2: must be a valid resource quantity")
	unversioned := newClaim()
	unversioned.ResourceVersion = ""
	errortest.Contain(t, PersistentVolumeClaimStatus(unversioned, newClaim()), "resourceVersion: Required value")
	attributes := func() *storagev1.VolumeAttributesClass {
		return &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold", ResourceVersion: "1"}, DriverName: "csi.example.com", Parameters: map[string]string{"a": "b"}}
	}
	errortest.Exactly(t, VolumeAttributesClass(attributes()))
	errortest.Exactly(t, VolumeAttributesClass(&storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold"}}),
		"spec.driverName: Required value", "spec.parameters: Required value: must contain at least one key/value pair")
	other := attributes()
	other.DriverName, other.Parameters["a"] = "other.example.com", "c"
	errortest.Exactly(t, VolumeAttributesClassUpdate(other, attributes()),
		"driverName: Forbidden: updates to driverName are forbidden.", "parameters: Forbidden: updates to parameters are forbidden.")
	changed := newClaim()
	changed.Spec.AccessModes[0] = "ReadWriteMany"
	if errs := PersistentVolumeClaimUpdate(changed, newClaim()); len(errs) != 1 || errs[0].Type != field.ErrorTypeForbidden || !strings.Contains(errs[0].Detail, "ReadWriteMany") {
		t.Errorf("got errors %v, want the difference", errs)
	}
}
