package scheme_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestKeys compares the keys with Kubernetes' own, including exceptions.
func TestKeys(t *testing.T) {
	want := map[string]string{
		"v1 ConfigMap":             "configmaps/ns/name",
		"v1 Event":                 "events/ns/name",
		"v1 LimitRange":            "limitranges/ns/name",
		"v1 PersistentVolumeClaim": "persistentvolumeclaims/ns/name",
		"v1 ResourceQuota":         "resourcequotas/ns/name",
		"certificates.k8s.io/v1 CertificateSigningRequest":                 "certificatesigningrequests/name",
		"policy/v1 PodDisruptionBudget":                                    "poddisruptionbudgets/ns/name",
		"rbac.authorization.k8s.io/v1 ClusterRole":                         "clusterroles/name",
		"rbac.authorization.k8s.io/v1 ClusterRoleBinding":                  "clusterrolebindings/name",
		"rbac.authorization.k8s.io/v1 Role":                                "roles/ns/name",
		"rbac.authorization.k8s.io/v1 RoleBinding":                         "rolebindings/ns/name",
		"scheduling.k8s.io/v1 PriorityClass":                               "priorityclasses/name",
		"storage.k8s.io/v1 StorageClass":                                   "storageclasses/name",
		"v1 Namespace":                                                     "namespaces/name",
		"v1 Node":                                                          "minions/name",
		"v1 Pod":                                                           "pods/ns/name",
		"v1 Secret":                                                        "secrets/ns/name",
		"v1 Service":                                                       "services/specs/ns/name",
		"v1 ServiceAccount":                                                "serviceaccounts/ns/name",
		"apps/v1 ControllerRevision":                                       "controllerrevisions/ns/name",
		"apps/v1 Deployment":                                               "deployments/ns/name",
		"apps/v1 ReplicaSet":                                               "replicasets/ns/name",
		"events.k8s.io/v1 Event":                                           "events/ns/name",
		"coordination.k8s.io/v1 Lease":                                     "leases/ns/name",
		"discovery.k8s.io/v1 EndpointSlice":                                "endpointslices/ns/name",
		"v1 PodTemplate":                                                   "podtemplates/ns/name",
		"v1 ReplicationController":                                         "controllers/ns/name",
		"apps/v1 DaemonSet":                                                "daemonsets/ns/name",
		"apps/v1 StatefulSet":                                              "statefulsets/ns/name",
		"batch/v1 CronJob":                                                 "cronjobs/ns/name",
		"batch/v1 Job":                                                     "jobs/ns/name",
		"autoscaling/v1 HorizontalPodAutoscaler":                           "horizontalpodautoscalers/ns/name",
		"autoscaling/v2 HorizontalPodAutoscaler":                           "horizontalpodautoscalers/ns/name",
		"v1 Endpoints":                                                     "services/endpoints/ns/name",
		"networking.k8s.io/v1 Ingress":                                     "ingress/ns/name",
		"networking.k8s.io/v1 IngressClass":                                "ingressclasses/name",
		"networking.k8s.io/v1 IPAddress":                                   "ipaddresses/name",
		"networking.k8s.io/v1 NetworkPolicy":                               "networkpolicies/ns/name",
		"networking.k8s.io/v1 ServiceCIDR":                                 "servicecidrs/name",
		"v1 PersistentVolume":                                              "persistentvolumes/name",
		"storage.k8s.io/v1 CSIDriver":                                      "csidrivers/name",
		"storage.k8s.io/v1 CSINode":                                        "csinodes/name",
		"storage.k8s.io/v1 CSIStorageCapacity":                             "csistoragecapacities/ns/name",
		"storage.k8s.io/v1 VolumeAttachment":                               "volumeattachments/name",
		"storage.k8s.io/v1 VolumeAttributesClass":                          "volumeattributesclasses/name",
		"resource.k8s.io/v1 DeviceClass":                                   "deviceclasses/name",
		"resource.k8s.io/v1 DeviceTaintRule":                               "devicetaintrules/name",
		"resource.k8s.io/v1 ResourceClaim":                                 "resourceclaims/ns/name",
		"resource.k8s.io/v1 ResourceClaimTemplate":                         "resourceclaimtemplates/ns/name",
		"resource.k8s.io/v1 ResourceSlice":                                 "resourceslices/name",
		"node.k8s.io/v1 RuntimeClass":                                      "runtimeclasses/name",
		"admissionregistration.k8s.io/v1 MutatingAdmissionPolicy":          "mutatingadmissionpolicies/name",
		"admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding":   "mutatingadmissionpolicybindings/name",
		"admissionregistration.k8s.io/v1 MutatingWebhookConfiguration":     "mutatingwebhookconfigurations/name",
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":        "validatingadmissionpolicies/name",
		"admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings/name",
		"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration":   "validatingwebhookconfigurations/name",
		"flowcontrol.apiserver.k8s.io/v1 FlowSchema":                       "flowschemas/name",
		"flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration":       "prioritylevelconfigurations/name",
		"certificates.k8s.io/v1 ClusterTrustBundle":                        "clustertrustbundles/name",
		"certificates.k8s.io/v1 PodCertificateRequest":                     "podcertificaterequests/ns/name",
		"apiextensions.k8s.io/v1 CustomResourceDefinition":                 "apiextensions.k8s.io/customresourcedefinitions/name",
		"storagemigration.k8s.io/v1 StorageVersionMigration":               "storageversionmigrations/name",
		"apiregistration.k8s.io/v1 APIService":                             "apiregistration.k8s.io/apiservices/name",
	}
	got := map[string]string{}
	for _, kind := range scheme.New().Kinds() {
		if kind.Virtual {
			if kind.Stored() || (kind.NewList() != nil) != kind.Observed || kind.StoragePrefix != "" {
				t.Errorf("%s is virtual, yet it is stored at %q", kind.Kind, kind.StoragePrefix)
			}
			continue
		}
		got[kind.GroupVersion().String()+" "+kind.Kind] = kind.Key("ns", "name")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys differ from Kubernetes' (-want +got):\n%s", diff)
	}
}

func TestLookUps(t *testing.T) {
	table := scheme.New()
	for _, kind := range table.Kinds() {
		obj := kind.New()
		if obj.GetObjectKind().GroupVersionKind() != kind.GroupVersionKind {
			t.Errorf("a new %s has the kind %s", kind.GroupVersionKind, obj.GetObjectKind().GroupVersionKind())
		}
		if list := kind.NewList(); !kind.Virtual && list.GetObjectKind().GroupVersionKind() != kind.ListKind() {
			t.Errorf("a new list of %s has the kind %s", kind.Kind, list.GetObjectKind().GroupVersionKind())
		}
		if table.KindOf(obj) != kind || table.Kind(kind.GroupVersionKind) != kind || table.Resource(kind.GroupVersionResource()) != kind {
			t.Errorf("%s is not found by type, kind and resource", kind.GroupVersionKind)
		}
		if !table.Scheme().Recognizes(kind.Storage) {
			t.Errorf("the storage kind of %s is unknown", kind.GroupVersionKind)
		}
		if !slices.IsSortedFunc(kind.Subresources, func(a, b scheme.Subresource) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("the subresources of %s are not sorted: %v", kind.Resource, kind.Subresources)
		}
		for _, s := range kind.Subresources {
			if !table.Scheme().Recognizes(s.Kind) || !slices.IsSorted(s.Verbs) {
				t.Errorf("%s/%s holds the kind %s and has the verbs %v", kind.Resource, s.Name, s.Kind, s.Verbs)
			}
		}
	}
	if scheme.For[*corev1.Pod](table).Resource != "pods" {
		t.Error("For[*Pod] is not the kind of pods")
	}
	if kind := scheme.For[*eventsv1.Event](table); kind.Stored() || kind.Storage.Group != "" {
		t.Errorf("events.k8s.io is stored as %s", kind.Storage)
	}
	defer func() {
		if recover() == nil {
			t.Error("For did not panic for a type that is not served")
		}
	}()
	scheme.For[*corev1.RangeAllocation](table)
}

func TestScope(t *testing.T) {
	table := scheme.New()
	pods, nodes := scheme.For[*corev1.Pod](table), scheme.For[*corev1.Node](table)
	if scope := pods.ScopeOf(&corev1.Pod{}); scope != scheme.Unscoped {
		t.Errorf("an unbound pod has scope %q", scope)
	}
	if scope := pods.ScopeOf(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1"}}); scope != "n1" {
		t.Errorf("a bound pod has scope %q", scope)
	}
	if scope := nodes.ScopeOf(&corev1.Node{}); scope != scheme.Unscoped {
		t.Errorf("a node has scope %q", scope)
	}
}

// TestStorage checks that client-go's own codecs decode what this package encodes, and the reverse.
func TestStorage(t *testing.T) {
	table := scheme.New()
	replicas := int32(3)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Labels: map[string]string{"app": "web"}},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
	kind := table.KindOf(deployment)
	data, err := table.EncodeStorage(kind, deployment)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte("k8s\x00")) {
		t.Errorf("stored without Kubernetes' prefix: %q", data[:8])
	}
	if kind := deployment.GroupVersionKind(); !kind.Empty() {
		t.Errorf("encoding changed the caller's object: it is now a %s", kind)
	}
	theirs, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		t.Fatalf("client-go cannot read it: %v", err)
	}
	ours, err := table.DecodeStorage(kind, data)
	if err != nil {
		t.Fatal(err)
	}
	want := deployment.DeepCopy()
	want.SetGroupVersionKind(kind.GroupVersionKind)
	for name, got := range map[string]any{"client-go's": theirs, "ours": ours} {
		if diff := cmp.Diff(any(want), got); diff != "" {
			t.Errorf("%s decoding (-want +got):\n%s", name, diff)
		}
	}
	json := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}}`
	if _, err := table.DecodeStorage(kind, []byte(json)); err != nil {
		t.Errorf("stored JSON is not decoded: %v", err)
	}
	for name, data := range map[string]string{
		"another kind": `{"apiVersion":"v1","kind":"Pod"}`, "no kind": `{}`, "rubbish": "k8s\x00rubbish", "nothing": "",
	} {
		if obj, err := table.DecodeStorage(kind, []byte(data)); err == nil || !strings.Contains(err.Error(), "Deployment") {
			t.Errorf("decoding %s: %v, %v; want an error that names the kind", name, obj, err)
		}
	}
}

func FuzzDecodeStorage(f *testing.F) {
	table := scheme.New()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}}
	kind := table.KindOf(pod)
	data, err := table.EncodeStorage(kind, pod)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		obj, err := table.DecodeStorage(kind, data)
		if err != nil {
			return
		}
		again, err := table.EncodeStorage(kind, obj)
		if err != nil {
			t.Fatalf("a decoded object cannot be encoded: %v", err)
		}
		if _, err := table.DecodeStorage(kind, again); err != nil {
			t.Fatalf("an encoded object cannot be decoded: %v", err)
		}
	})
}
