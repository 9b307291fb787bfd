package builtin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// TestStorageRows checks that columns and cells of volumes and devices are those that kubectl shows
// against Kubernetes.
func TestStorageRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: ago(5 * time.Minute)}
	gone := metav1.ObjectMeta{
		Name: "one", CreationTimestamp: ago(5 * time.Minute), DeletionTimestamp: new(ago(0)),
		Annotations: map[string]string{corev1.BetaStorageClassAnnotation: "old"},
	}
	gib := resource.MustParse("1Gi")
	volume := []string{
		"Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass", "VolumeAttributesClass", "Reason", "Age", "VolumeMode*",
	}
	driver := []string{"Name", "AttachRequired", "PodInfoOnMount", "StorageCapacity", "TokenRequests", "RequiresRepublish", "Modes", "Age"}
	claim := []string{"Name", "State", "Age"}
	for _, tc := range []struct {
		name    string
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{
			"volume", &corev1.PersistentVolume{
				ObjectMeta: meta,
				Spec: corev1.PersistentVolumeSpec{
					Capacity: corev1.ResourceList{"storage": gib}, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce", "ReadOnlyMany"},
					PersistentVolumeReclaimPolicy: "Retain", ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "c"}, StorageClassName: "fast",
					VolumeAttributesClassName: new("gold"), VolumeMode: new(corev1.PersistentVolumeBlock),
				},
				Status: corev1.PersistentVolumeStatus{Phase: "Failed", Reason: "Broken"},
			},
			volume, []any{"one", "1Gi", "RWO,ROX", "Retain", "Failed", "ns/c", "fast", "gold", "Broken", "5m", "Block"},
		},
		{
			"deleted volume", &corev1.PersistentVolume{ObjectMeta: gone, Spec: corev1.PersistentVolumeSpec{StorageClassName: "new"}, Status: corev1.PersistentVolumeStatus{Phase: "Bound"}},
			volume, []any{"one", "0", "", "", "Terminating", "", "old", "<unset>", "", "5m", "<unset>"},
		},
		{"bare driver", &storagev1.CSIDriver{ObjectMeta: meta}, driver, []any{"one", true, false, false, "<unset>", false, "<none>", "5m"}},
		{
			"driver", &storagev1.CSIDriver{ObjectMeta: meta, Spec: storagev1.CSIDriverSpec{
				AttachRequired: new(false), PodInfoOnMount: new(true), StorageCapacity: new(true), RequiresRepublish: new(true),
				TokenRequests:        []storagev1.TokenRequest{{Audience: "a"}, {Audience: "b"}},
				VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{"Persistent", "Ephemeral"},
			}},
			driver, []any{"one", false, true, true, "a,b", true, "Persistent,Ephemeral", "5m"},
		},
		{
			"node's drivers", &storagev1.CSINode{ObjectMeta: meta, Spec: storagev1.CSINodeSpec{Drivers: make([]storagev1.CSINodeDriver, 2)}},
			[]string{"Name", "Drivers", "Age"}, []any{"one", int64(2), "5m"},
		},
		{
			"capacity", &storagev1.CSIStorageCapacity{ObjectMeta: meta, StorageClassName: "fast"},
			[]string{"Name", "Created At"}, []any{"one", meta.CreationTimestamp.UTC().Format(time.RFC3339)},
		},
		{
			"attachment", &storagev1.VolumeAttachment{
				ObjectMeta: meta, Status: storagev1.VolumeAttachmentStatus{Attached: true},
				Spec: storagev1.VolumeAttachmentSpec{Attacher: "csi", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}},
			},
			[]string{"Name", "Attacher", "PV", "Node", "Attached", "Age"}, []any{"one", "csi", "pv", "n", true, "5m"},
		},
		{
			"attributes class", &storagev1.VolumeAttributesClass{ObjectMeta: meta, DriverName: "csi"},
			[]string{"Name", "DriverName", "Age"}, []any{"one", "csi", "5m"},
		},
		{"device class", &resourcev1.DeviceClass{ObjectMeta: meta}, []string{"Name", "Age"}, []any{"one", "5m"}},
		{"claim template", &resourcev1.ResourceClaimTemplate{ObjectMeta: meta}, []string{"Name", "Age"}, []any{"one", "5m"}},
		{"pending claim", &resourcev1.ResourceClaim{ObjectMeta: meta}, claim, []any{"one", "pending", "5m"}},
		{"deleted claim", &resourcev1.ResourceClaim{ObjectMeta: gone}, claim, []any{"one", "deleted", "5m"}},
		{
			"allocated claim", &resourcev1.ResourceClaim{ObjectMeta: meta, Status: resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{}}},
			claim, []any{"one", "allocated", "5m"},
		},
		{
			"reserved claim", &resourcev1.ResourceClaim{ObjectMeta: gone, Status: resourcev1.ResourceClaimStatus{
				Allocation: &resourcev1.AllocationResult{}, ReservedFor: make([]resourcev1.ResourceClaimConsumerReference, 1),
			}},
			claim, []any{"one", "deleted,allocated,reserved", "5m"},
		},
		{
			"slice", &resourcev1.ResourceSlice{ObjectMeta: meta, Spec: resourcev1.ResourceSliceSpec{
				Driver: "d", NodeName: new("n"), Pool: resourcev1.ResourcePool{Name: "p"},
			}},
			[]string{"Name", "Node", "Driver", "Pool", "Age"}, []any{"one", "n", "d", "p", "5m"},
		},
		{
			"taint rule", &resourcev1.DeviceTaintRule{ObjectMeta: meta, Spec: resourcev1.DeviceTaintRuleSpec{
				Taint: resourcev1.DeviceTaint{Key: "k", Value: "v", Effect: "NoExecute", TimeAdded: new(ago(3 * time.Hour))},
			}},
			[]string{"Name", "Key", "Value", "Effect", "TimeAdded", "Age"}, []any{"one", "k", "v", "NoExecute", "3h", "5m"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { checkRow(t, tc.obj, tc.columns, tc.cells) })
	}
}

// TestClusterRows checks that columns and cells of the kinds that configure an apiserver are those
// that kubectl shows against Kubernetes.
func TestClusterRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: ago(5 * time.Minute)}
	binding := []string{"Name", "PolicyName", "ParamRef", "Age"}
	schema := []string{"Name", "PriorityLevel", "MatchingPrecedence", "DistinguisherMethod", "Age", "MissingPL"}
	level := []string{"Name", "Type", "NominalConcurrencyShares", "Queues", "HandSize", "QueueLengthLimit", "Age"}
	service := []string{"Name", "Service", "Available", "Age"}
	request := []string{"Name", "PodName", "ServiceAccountName", "NodeName", "SignerName", "State", "UnverifiedUserAnnotations"}
	params := func(ref *admissionregistrationv1.ParamRef) scheme.Object {
		return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: ref},
		}
	}
	available := func(status apiregistrationv1.ConditionStatus, reason string) apiregistrationv1.APIServiceStatus {
		return apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{
			{Type: "Other", Status: "True"}, {Type: apiregistrationv1.Available, Status: status, Reason: reason},
		}}
	}
	for _, tc := range []struct {
		name    string
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{"runtime class", &nodev1.RuntimeClass{ObjectMeta: meta, Handler: "runc"}, []string{"Name", "Handler", "Age"}, []any{"one", "runc", "5m"}},
		{
			"mutating webhooks", &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: make([]admissionregistrationv1.MutatingWebhook, 2)},
			[]string{"Name", "Webhooks", "Age"}, []any{"one", int64(2), "5m"},
		},
		{
			"validating webhooks", &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: make([]admissionregistrationv1.ValidatingWebhook, 3)},
			[]string{"Name", "Webhooks", "Age"}, []any{"one", int64(3), "5m"},
		},
		{
			"validating policy", &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				Validations: make([]admissionregistrationv1.Validation, 2), ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			}},
			[]string{"Name", "Validations", "ParamKind", "Age"}, []any{"one", int64(2), "v1/ConfigMap", "5m"},
		},
		{
			"mutating policy", &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				Mutations: make([]admissionregistrationv1.Mutation, 1),
			}},
			[]string{"Name", "Mutations", "ParamKind", "Age"}, []any{"one", int64(1), "<unset>", "5m"},
		},
		{"binding", params(nil), binding, []any{"one", "p", "<unset>", "5m"}},
		{"binding of a name", params(&admissionregistrationv1.ParamRef{Name: "x"}), binding, []any{"one", "p", "*/x", "5m"}},
		{"binding of an object", params(&admissionregistrationv1.ParamRef{Name: "x", Namespace: "ns"}), binding, []any{"one", "p", "ns/x", "5m"}},
		{
			"mutating binding", &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
				PolicyName: "p", ParamRef: &admissionregistrationv1.ParamRef{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
			}},
			binding, []any{"one", "p", "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}", "5m"},
		},
		{"bare flow schema", &flowcontrolv1.FlowSchema{ObjectMeta: meta}, schema, []any{"one", "", int64(0), "<none>", "5m", "?"}},
		{
			"flow schema", &flowcontrolv1.FlowSchema{
				ObjectMeta: meta, Status: flowcontrolv1.FlowSchemaStatus{Conditions: []flowcontrolv1.FlowSchemaCondition{{Type: "Dangling", Status: "True"}}},
				Spec: flowcontrolv1.FlowSchemaSpec{
					PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "low"}, MatchingPrecedence: 7,
					DistinguisherMethod: &flowcontrolv1.FlowDistinguisherMethod{Type: "ByUser"},
				},
			},
			schema, []any{"one", "low", int64(7), "ByUser", "5m", "True"},
		},
		{
			"exempt level", &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: meta, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: "Exempt"}},
			level, []any{"one", "Exempt", "<none>", "<none>", "<none>", "<none>", "5m"},
		},
		{
			"limited level", &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: meta, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: "Limited", Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					NominalConcurrencyShares: new(int32(5)),
					LimitResponse:            flowcontrolv1.LimitResponse{Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 2, QueueLengthLimit: 3}},
				},
			}},
			level, []any{"one", "Limited", int64(5), int64(1), int64(2), int64(3), "5m"},
		},
		{"trust bundle", &certificatesv1.ClusterTrustBundle{ObjectMeta: meta}, []string{"Name", "SignerName"}, []any{"one", "<none>"}},
		{
			"trust bundle of a signer", &certificatesv1.ClusterTrustBundle{ObjectMeta: meta, Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: "a.b/c"}},
			[]string{"Name", "SignerName"}, []any{"one", "a.b/c"},
		},
		{
			"pod certificate request", &certificatesv1.PodCertificateRequest{ObjectMeta: meta, Spec: certificatesv1.PodCertificateRequestSpec{
				PodName: "p", ServiceAccountName: "sa", NodeName: "n", SignerName: "a.b/c", UnverifiedUserAnnotations: map[string]string{"a.b/k": "v"},
			}},
			request, []any{"one", "p", "sa", "n", "a.b/c", "Pending", "a.b/k=v"},
		},
		{
			"denied pod certificate request", &certificatesv1.PodCertificateRequest{ObjectMeta: meta, Status: certificatesv1.PodCertificateRequestStatus{
				Conditions: []metav1.Condition{{Type: "Denied"}, {Type: "Else"}},
			}},
			request, []any{"one", "", "", "", "", "Denied", "<none>"},
		},
		{
			"local API", &apiregistrationv1.APIService{ObjectMeta: meta, Status: available("True", "Local")},
			service, []any{"one", "Local", "True", "5m"},
		},
		{
			"remote API", &apiregistrationv1.APIService{
				ObjectMeta: meta, Spec: apiregistrationv1.APIServiceSpec{Service: &apiregistrationv1.ServiceReference{Namespace: "ns", Name: "s"}}, Status: available("False", "MissingEndpoints"),
			},
			service, []any{"one", "ns/s", "False (MissingEndpoints)", "5m"},
		},
		{"new API", &apiregistrationv1.APIService{ObjectMeta: meta}, service, []any{"one", "Local", "Unknown", "5m"}},
	} {
		t.Run(tc.name, func(t *testing.T) { checkRow(t, tc.obj, tc.columns, tc.cells) })
	}
}

// TestFlowSchemasAreShownInTheOrderInWhichTheyMatch checks the order of the rows.
func TestFlowSchemasAreShownInTheOrderInWhichTheyMatch(t *testing.T) {
	schema := func(name string, precedence int32) scheme.Object {
		return &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: precedence}}
	}
	objs := []scheme.Object{schema("a", 9), schema("c", 1), schema("b", 1)}
	var names []any
	for _, row := range All(Config{})[flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema")].Columns.Table(objs, nil, nil, now).Rows {
		names = append(names, row.Cells[0])
	}
	if diff := cmp.Diff([]any{"b", "c", "a"}, names); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if objs[0].GetName() != "a" {
		t.Error("the argument was sorted")
	}
}
