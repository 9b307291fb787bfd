package node_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/localvolume"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/bootstraproles"
)

// TestLocalVolumes: a local volume belongs to the one node that it names, whether or not a pod uses it.
func TestLocalVolumes(t *testing.T) {
	local := func(affinity *corev1.VolumeNodeAffinity) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			NodeAffinity: affinity, ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "others"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/v"}},
		}}
	}
	several := localvolume.OnHost("n1")
	several.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"n1", "n2"}
	elsewhere := local(localvolume.OnHost("n1"))
	elsewhere.Spec.Local, elsewhere.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: "/v"}
	volumes := map[string]*corev1.PersistentVolume{
		"own": local(localvolume.OnHost("n1")), "other": local(localvolume.OnHost("n2")), "prefix": local(localvolume.OnHost("n11")),
		"several": local(several), "anywhere": local(nil), "hostpath": elsewhere,
	}
	authorizer := node.New(node.Config{
		Pods: pods{everywhere()}, Cached: func(_ schema.GroupVersionKind, _, name string) (scheme.Object, bool) {
			v, ok := volumes[name]
			return v, ok
		},
	})
	for _, c := range []struct{ request, want string }{
		{"GET /api/v1/persistentvolumes/own", "allowed"},
		{"GET /api/v1/persistentvolumes/other", "no relationship"},
		{"GET /api/v1/persistentvolumes/prefix", "no relationship"},
		{"GET /api/v1/persistentvolumes/several", "no relationship"},
		{"GET /api/v1/persistentvolumes/anywhere", "no relationship"},
		{"GET /api/v1/persistentvolumes/hostpath", "no relationship"},
		{"DELETE /api/v1/persistentvolumes/own", "can only get"},
		{"PUT /api/v1/persistentvolumes/own/status", "can only get"},
	} {
		method, url, _ := strings.Cut(c.request, " ")
		decision, reason, err := authorizer.Authorize(t.Context(), agent("n1"), authz.FromRequest(httptest.NewRequest(method, url, nil)))
		if decision == authz.Allow {
			reason = "allowed"
		}
		if err != nil || !strings.HasPrefix(reason, c.want) {
			t.Errorf("%s: got %v, %q, %v, want %q", c.request, decision, reason, err, c.want)
		}
	}
}

// TestOwnObjects: an object that names its node belongs to that node.
func TestOwnObjects(t *testing.T) {
	of := func(name string) map[string]scheme.Object {
		volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "claim"}}}
		if name != "n1" {
			volume.Spec.ClaimRef.Name = "others"
		}
		return map[string]scheme.Object{
			"PersistentVolume": volume, "VolumeAttachment": &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: name}},
			"ResourceSlice":         &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{NodeName: &name}},
			"PodCertificateRequest": &certificatesv1.PodCertificateRequest{Spec: certificatesv1.PodCertificateRequestSpec{NodeName: types.NodeName(name)}},
		}
	}
	objects := map[string]map[string]scheme.Object{"own": of("n1"), "other": of("n2")}
	objects["other"]["ResourceSlice"] = &resourcev1.ResourceSlice{} // of no node
	authorizer := node.New(node.Config{
		Pods: pods{everywhere()}, Rules: bootstraproles.NodeRules(),
		Cached: func(kind schema.GroupVersionKind, _, name string) (scheme.Object, bool) {
			obj, ok := objects[name][kind.Kind]
			return obj, ok
		},
	})
	const (
		unrelated = "no relationship found between node 'n1' and this object"
		slices    = "/apis/resource.k8s.io/v1/resourceslices"
		requests  = "/apis/certificates.k8s.io/v1/namespaces/ns/podcertificaterequests"
	)
	for _, c := range []struct{ request, want string }{
		{"GET /api/v1/persistentvolumes/own", "allowed"},
		{"GET /api/v1/persistentvolumes/other", unrelated},
		{"GET /api/v1/persistentvolumes/none", unrelated},
		{"GET /api/v1/persistentvolumes", "can only get individual resources of this type"},
		{"PUT /api/v1/persistentvolumes/own", "can only get individual resources of this type"},
		{"GET /api/v1/persistentvolumes/own/status", "cannot get subresource"},
		{"GET /apis/storage.k8s.io/v1/volumeattachments/own", "allowed"},
		{"GET /apis/storage.k8s.io/v1/volumeattachments/other", unrelated},
		{"PATCH /apis/storage.k8s.io/v1/volumeattachments/own/status", "can only get individual resources of this type"},
		{"POST " + slices, "allowed"},
		{"GET " + slices + "/own", "allowed"},
		{"PUT " + slices + "/own", "allowed"},
		{"PATCH " + slices + "/own", "allowed"},
		{"DELETE " + slices + "/own", "allowed"},
		{"DELETE " + slices + "/other", unrelated},
		{"GET " + slices, "can only list/watch/deletecollection resourceslices with nodeName field selector"},
		{"GET " + slices + "?fieldSelector=spec.nodeName=n1", "allowed"},
		{"GET " + slices + "?watch=1&fieldSelector=spec.nodeName=n1", "allowed"},
		{"DELETE " + slices + "?fieldSelector=spec.nodeName=n1", "allowed"},
		{"DELETE " + slices + "?fieldSelector=spec.nodeName=n2", "can only list/watch/deletecollection resourceslices with nodeName field selector"},
		{"PUT " + slices + "/own/status", "cannot authorize ResourceSlice subresources"},
		{"POST " + requests, "allowed"},
		{"GET " + requests + "/own", "allowed"},
		{"GET " + requests + "/other", unrelated},
		{"GET " + requests + "?fieldSelector=spec.nodeName=n1", "allowed"},
		{"GET " + requests, "can only list/watch podcertificaterequests with nodeName field selector"},
		{"PUT " + requests + "/own/status", "nodes may not access the status subresource of PodCertificateRequests"},
		{"DELETE " + requests + "/own", "can only create, get, list and watch podcertificaterequests"},
		{"GET /apis/certificates.k8s.io/v1/clustertrustbundles", "allowed"},
		{"PUT /apis/certificates.k8s.io/v1/clustertrustbundles/x", ""},
	} {
		method, url, _ := strings.Cut(c.request, " ")
		decision, reason, err := authorizer.Authorize(t.Context(), agent("n1"), authz.FromRequest(httptest.NewRequest(method, url, nil)))
		got := reason
		if decision == authz.Allow {
			got = "allowed"
		}
		if err != nil || decision == authz.Deny || got != c.want {
			t.Errorf("%s: got %v, %q, %v, want %q", c.request, decision, reason, err, c.want)
		}
	}
}
