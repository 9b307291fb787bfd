package builtin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/scheme"
)

// TestAccessAndPolicyRows checks that columns and cells are those that kubectl shows against
// Kubernetes.
func TestAccessAndPolicyRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: ago(5 * time.Minute)}
	gib := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for _, tc := range []struct {
		name    string
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{"role", &rbacv1.Role{ObjectMeta: meta}, []string{"Name", "Created At"}, []any{"one", "2030-01-01T11:55:00Z"}},
		{
			"role binding", &rbacv1.RoleBinding{
				ObjectMeta: meta, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"},
				Subjects: []rbacv1.Subject{
					{Kind: "User", Name: "ann"}, {Kind: "User", Name: "bob"}, {Kind: "Group", Name: "devs"},
					{Kind: "ServiceAccount", Namespace: "ns", Name: "bot"},
				},
			},
			[]string{"Name", "Role", "Age", "Users*", "Groups*", "ServiceAccounts*"},
			[]any{"one", "ClusterRole/view", "5m", "ann, bob", "devs", "ns/bot"},
		},
		{
			"certificate signing request", &certificatesv1.CertificateSigningRequest{
				ObjectMeta: meta,
				Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: "example.com/s", Username: "ann", ExpirationSeconds: new(int32(3600))},
				Status: certificatesv1.CertificateSigningRequestStatus{
					Certificate: []byte("x"), Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: "Approved"}, {Type: "Failed"}},
				},
			},
			[]string{"Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"},
			[]any{"one", "5m", "example.com/s", "ann", "60m", "Approved,Failed,Issued"},
		},
		{
			"fresh certificate signing request", &certificatesv1.CertificateSigningRequest{ObjectMeta: meta},
			[]string{"Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"},
			[]any{"one", "5m", "<none>", "", "<none>", "Pending"},
		},
		{
			"denied certificate signing request", &certificatesv1.CertificateSigningRequest{
				ObjectMeta: meta, Status: certificatesv1.CertificateSigningRequestStatus{
					Conditions: []certificatesv1.CertificateSigningRequestCondition{{Type: "Denied"}, {Type: "Approved"}},
				},
			},
			[]string{"Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"},
			[]any{"one", "5m", "<none>", "", "<none>", "Denied"},
		},
		{
			"quota", &corev1.ResourceQuota{ObjectMeta: meta, Status: corev1.ResourceQuotaStatus{
				Hard: corev1.ResourceList{"pods": resource.MustParse("10"), "limits.cpu": resource.MustParse("4"), "count/x.y": resource.MustParse("2")},
				Used: corev1.ResourceList{"pods": resource.MustParse("3"), "limits.cpu": resource.MustParse("500m")},
			}},
			[]string{"Name", "Request", "Limit", "Age"},
			[]any{"one", "count/x.y: 0/2, pods: 3/10", "limits.cpu: 500m/4", "5m"},
		},
		{
			"budget", &policyv1.PodDisruptionBudget{
				ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromString("50%"))},
				Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 2},
			},
			[]string{"Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"},
			[]any{"one", "50%", "N/A", int64(2), "5m"},
		},
		{
			"priority class", &schedulingv1.PriorityClass{ObjectMeta: meta, Value: 7, GlobalDefault: true, PreemptionPolicy: new(corev1.PreemptNever)},
			[]string{"Name", "Value", "Global-Default", "Age", "PreemptionPolicy"},
			[]any{"one", int64(7), true, "5m", "Never"},
		},
		{
			"pending claim", &corev1.PersistentVolumeClaim{ObjectMeta: meta, Status: corev1.PersistentVolumeClaimStatus{Phase: "Pending"}},
			[]string{"Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age", "VolumeMode*"},
			[]any{"one", "Pending", "", "", "", "", "<unset>", "5m", "<unset>"},
		},
		{
			"bound claim", &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "one", DeletionTimestamp: new(ago(0)), CreationTimestamp: ago(5 * time.Minute)},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv", StorageClassName: new("fast"), VolumeMode: new(corev1.PersistentVolumeBlock)},
				Status:     corev1.PersistentVolumeClaimStatus{Phase: "Bound", Capacity: gib, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteMany", "ReadWriteOnce", "ReadWriteMany"}},
			},
			[]string{"Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age", "VolumeMode*"},
			[]any{"one", "Terminating", "pv", "1Gi", "RWO,RWX", "fast", "<unset>", "5m", "Block"},
		},
		{
			"storage class", &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{
					Name: "one", CreationTimestamp: ago(5 * time.Minute), Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
				},
				Provisioner: "example.com/p", AllowVolumeExpansion: new(true),
			},
			[]string{"Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"},
			[]any{"one (default)", "example.com/p", "Delete", "Immediate", true, "5m"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { checkRow(t, tc.obj, tc.columns, tc.cells) })
	}
}

// checkRow checks the columns of an object's kind, with those of -o wide marked by an asterisk, and
// the object's cells.
func checkRow(t *testing.T, obj scheme.Object, columns []string, cells []any) {
	t.Helper()
	table := All(Config{})[scheme.New().KindOf(obj).GroupVersionKind].Columns.Table([]scheme.Object{obj}, nil, nil, now)
	var names []string
	for _, column := range table.ColumnDefinitions {
		if column.Priority > 0 {
			column.Name += "*"
		}
		names = append(names, column.Name)
	}
	if diff := cmp.Diff(columns, names); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(cells, table.Rows[0].Cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}
