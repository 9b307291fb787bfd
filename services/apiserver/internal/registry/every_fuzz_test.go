package registry_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/patch"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
)

// immutable returns the fields that no update of the samples may change, by kind. Fields that may
// be set once are set in none of the samples and are not listed.
func immutable() map[string][]string {
	return map[string][]string{
		"PersistentVolume":          {"spec.hostPath", "spec.volumeMode"},
		"PersistentVolumeClaim":     {"spec.accessModes", "spec.storageClassName", "spec.volumeMode", "spec.selector"},
		"Pod":                       {"spec.restartPolicy", "spec.volumes", "spec.serviceAccountName", "spec.hostNetwork", "spec.nodeName"},
		"Secret":                    {"type"},
		"ControllerRevision":        {"data"},
		"DaemonSet":                 {"spec.selector"},
		"Deployment":                {"spec.selector"},
		"ReplicaSet":                {"spec.selector"},
		"StatefulSet":               {"spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"},
		"Job":                       {"spec.selector", "spec.completionMode", "spec.podFailurePolicy", "spec.managedBy"},
		"CertificateSigningRequest": {"spec"},
		"ClusterTrustBundle":        {"spec.signerName"},
		"PodCertificateRequest":     {"spec"},
		"ClusterRoleBinding":        {"roleRef"},
		"RoleBinding":               {"roleRef"},
		"IngressClass":              {"spec.controller"},
		"IPAddress":                 {"spec"},
		"EndpointSlice":             {"addressType"},
		"CSIDriver":                 {"spec.attachRequired", "spec.fsGroupPolicy", "spec.volumeLifecycleModes"},
		"CSIStorageCapacity":        {"storageClassName", "nodeTopology"},
		"StorageClass":              {"provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"},
		"VolumeAttachment":          {"spec"},
		"VolumeAttributesClass":     {"driverName", "parameters"},
		"ResourceClaim":             {"spec"},
		"ResourceClaimTemplate":     {"spec"},
		"ResourceSlice":             {"spec.driver", "spec.nodeName", "spec.pool.name"},
		"PriorityClass":             {"value"},
		"RuntimeClass":              {"handler"},
	}
}

// FuzzEveryPatch applies patches of the three kinds to a sample of every kind, as requests would.
// The result must be an API error, or the object with every field intact that an update may not
// change.
func FuzzEveryPatch(f *testing.F) {
	w := newWorld(f)
	set, err := samples.New(w.Table)
	if err != nil {
		f.Fatal(err)
	}
	patcher, err := patch.New(w.Table)
	if err != nil {
		f.Fatal(err)
	}
	fixed := immutable()
	var objects []scheme.Object
	for _, kind := range w.Table.Kinds() {
		if kind.Virtual {
			continue
		}
		// Kinds that are stored as another kind get different names.
		sample, which := set.Nth(kind, len(objects), "default"), uint8(len(objects))
		for _, path := range fixed[kind.Kind] {
			at := strings.Split(path, ".")
			f.Add(uint8(1), which, false, `{"`+strings.Join(at, `":{"`)+`":null`+strings.Repeat("}", len(at)))
		}
		if change, ok := set.Change(kind); ok {
			f.Add(uint8(1), which, false, `{"spec":`+string(change.Spec)+`}`)
			f.Add(uint8(2), which, true, `{"status":`+string(change.Status)+`}`)
		}
		f.Add(uint8(0), which, false, `[{"op":"replace","path":"/metadata/uid","value":"x"},{"op":"copy","from":"/metadata/name","path":"/spec/x"}]`)
		created, err := w.Resource(kind).Create(f.Context(), sample.GetNamespace(), sample, metav1.CreateOptions{})
		if err != nil {
			f.Fatal(err)
		}
		objects = append(objects, created)
	}
	pods := scheme.For[*corev1.Pod](w.Table)
	f.Fuzz(func(t *testing.T, form, which uint8, status bool, body string) {
		parsed, err := patcher.Parse(patch.Types(pods)[int(form)%3], []byte(body), metav1.FieldValidationIgnore)
		if err != nil {
			return
		}
		object := objects[int(which)%len(objects)]
		before, after, subresource := patched(t, w, object, status, parsed, body)
		if after == nil {
			return
		}
		kind := w.Table.KindOf(object)
		checkKept(t, body, before, after)
		if w.Catalog.Of(kind).Level != kinds.Full {
			return
		}
		was, is := fieldsOf(t, before), fieldsOf(t, after)
		for _, path := range fixed[kind.Kind] {
			if old, now := at(was, path), at(is, path); !reflect.DeepEqual(old, now) {
				t.Errorf("%s changed %s of a %s from %v to %v", body, path, kind.Kind, old, now)
			}
		}
		if subresource == "status" && !reflect.DeepEqual(was["spec"], is["spec"]) {
			t.Errorf("%s of the status changed the spec of a %s to %v", body, kind.Kind, is["spec"])
		}
	})
}

func fieldsOf(t *testing.T, obj scheme.Object) map[string]any {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// at returns the value at a path of names.
func at(fields map[string]any, path string) any {
	var value any = fields
	for name := range strings.SplitSeq(path, ".") {
		inner, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = inner[name]
	}
	return value
}
