package rest_test

import (
	"errors"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest/resttest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// TestPodSubresources writes the status of a pod, reads its log, and tries what is not served.
func TestPodSubresources(t *testing.T) {
	w := newWorld(t)
	const pods = resttest.Default + "pods"
	w.Script([]resttest.Step{
		{Send: "POST " + pods, Body: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, Want: "201 Pod p"},
		{Send: "GET " + pods + "/p/log?follow=true", Want: "200 log of default/p"},
		{Send: "POST " + pods + "/p/log", Body: "{}", Want: "405 ..."},
		{Send: "PUT " + pods + "/p/status", Body: `{"metadata":{"name":"p"},"status":{"phase":"Running"}}`, Want: "200 Pod p"},
		{Send: "GET " + pods + "/p/status", Want: "200 Pod p"},
		{Send: "GET " + pods + "?fieldSelector=status.phase%3DRunning", Want: "200 PodList p"},
		{Send: "DELETE " + pods + "/p/status", Want: "405 ..."},
	})
}

// TestCustomSubresources: a special subresource of a custom kind is served if something serves that
// name and kind, and refused if not.
func TestCustomSubresources(t *testing.T) {
	w := newWorld(t)
	scale := w.Table.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Subresource("scale")
	if err := w.Catalog.Install(&kinds.Definition{Kind: &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"}, Custom: true,
		Resource: "gadgets", Namespaced: true, StoragePrefix: "example.org/gadgets",
		Subresources: []scheme.Subresource{{Name: "polish", Verbs: []string{"create"}}, *scale},
	}}); err != nil {
		t.Fatal(err)
	}
	const gadget = "/apis/example.org/v1/namespaces/default/gadgets/g"
	w.Script([]resttest.Step{
		{Send: "POST " + gadget + "/polish", Body: `{}`, Want: `405 create is not supported on resources of kind "gadgets.example.org"`},
		{Send: "GET " + gadget + "/polish", Want: "405 the server does not allow this method on the requested resource"},
		{Send: "GET " + gadget + "/scale", Want: `404 gadgets.example.org "g" not found`},
		{Send: "PUT " + gadget + "/scale", Body: `{"kind":"Gadget","apiVersion":"example.org/v1"}`,
			Want: `400 Gadget in version "v1" cannot be handled as a Scale: ...`},
		{Send: "POST " + gadget + "/rocket", Body: `{}`, Want: "404 404 page not found"},
		{Send: "GET /apis/example.org/v1/gadgets", Want: "200 GadgetList"},
		{Send: "POST /apis/example.org/v1/gadgets", Body: `{}`, Want: "404 404 page not found"},
		{Send: "DELETE /apis/example.org/v1/gadgets", Want: "404 404 page not found"},
		{Send: "PUT /apis/example.org/v1/gadgets", Body: `{}`, Want: "404 404 page not found"},
	})
}

// TestVirtualKinds asks for reviews and for what is found out when it is asked for.
func TestVirtualKinds(t *testing.T) {
	w := newWorld(t)
	const measured, review, local = "/apis/metrics.k8s.io/v1beta1", "POST /apis/authentication.k8s.io/v1/selfsubjectreviews", "POST /apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
	old := []string{"v1 ComponentStatus is deprecated in v1.19+"}
	w.Script([]resttest.Step{
		{Send: review, Body: `{}`, Want: "201 SelfSubjectReview - answered=yes"},
		{Send: review, Body: `{"metadata":{"namespace":"default"}}`, Want: "201 SelfSubjectReview - answered=yes"},
		{Send: review + "?dryRun=x", Body: `{}`, Want: `422 CreateOptions.meta.k8s.io "" is invalid: ...`},
		{Send: review + "?fieldValidation=Strict", Body: `{"rocket":1}`, Want: "400 ..."},
		{Send: review, Body: `{"kind":"Pod","apiVersion":"v1"}`, Want: "400 ..."},
		{Send: review, Header: "Accept: application/json;as=Table;g=meta.k8s.io;v=v1", Body: "{}", Want: "406 ..."},
		{Send: local, Body: `{}`, Want: "405 create is not supported on resources of kind \"localsubjectaccessreviews.authorization.k8s.io\""},
		{Send: "GET /apis/authentication.k8s.io/v1/selfsubjectreviews", Want: "405 ..."},
		{Send: "GET /api/v1/componentstatuses", Want: "200 ComponentStatusList etcd-0 scheduler", Warns: old},
		{Send: "GET /api/v1/componentstatuses/etcd-0", Want: "200 ComponentStatus etcd-0", Warns: old},
		{Send: "GET /api/v1/componentstatuses/none", Want: `404 componentstatuses "none" not found`, Warns: old},
		{Send: "GET /api/v1/componentstatuses?labelSelector=role%3Dstore", Want: "200 ComponentStatusList etcd-0", Warns: old},
		{Send: "GET /api/v1/componentstatuses?fieldSelector=metadata.name%3Dscheduler", Want: "200 ComponentStatusList scheduler", Warns: old},
		{Send: "GET /api/v1/componentstatuses?labelSelector=%21%21", Want: "400 ...", Warns: old},
		{Send: "GET /api/v1/componentstatuses?fieldSelector=x", Want: "400 ...", Warns: old},
		{Send: "GET /api/v1/componentstatuses?limit=x", Want: "400 ...", Warns: old},
		{Send: "GET /api/v1/componentstatuses", Header: "Accept: application/json;as=Table;g=meta.k8s.io;v=v1", Want: "200 Table etcd-0 scheduler", Warns: old},
		{Send: "DELETE /api/v1/componentstatuses/etcd-0", Want: "405 ..."},
		{Send: "GET /api/v1/componentstatuses?fieldSelector=spec.x%3Dy", Want: `400 "spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"`, Warns: old},
		{Send: "GET " + measured + "/pods", Want: "200 PodMetricsList p p"},
		{Send: "GET " + measured + "/namespaces/b/pods", Want: "200 PodMetricsList p"},
		{Send: "GET " + measured + "/namespaces/c/pods", Want: "200 PodMetricsList"},
		{Send: "GET " + measured + "/pods?labelSelector=in%3Da", Want: "200 PodMetricsList p"},
		{Send: "GET " + measured + "/pods?fieldSelector=metadata.namespace%3Da", Want: "200 PodMetricsList p"},
		{Send: "GET " + measured + "/namespaces/a/pods/p", Want: "200 PodMetrics p"},
		{Send: "GET " + measured + "/namespaces/a/pods/q", Want: `404 pods.metrics.k8s.io "q" not found`},
		{Send: "GET " + measured + "/namespaces/none/pods/q", Want: `404 pods "q" not found`},
		{Send: "GET " + measured + "/namespaces/none/pods", Want: "404 ..."},
		{Send: "GET " + measured + "/pods", Header: "Accept: application/json;as=Table;g=meta.k8s.io;v=v1", Want: "200 Table p p"},
		{Send: "GET " + measured + "/pods/p", Want: "404 ..."},
		{Send: "GET " + measured + "/pods?watch=1", Want: "405 ..."},
		{Send: "POST " + measured + "/namespaces/a/pods", Want: "405 ..."},
		{Send: "GET " + measured + "/nodes", Want: "405 ..."},
	})
}

// TestFences: the fence of a write is read from its header, checked early, and checked strictly
// where the store will not check it again.
func TestFences(t *testing.T) {
	w := newWorld(t)
	const header = fence.Header + ": kube-system/lock;uid=u;transitions=1;holder=me"
	lost := apierrors.NewConflict(coordinationv1.Resource("leases"), "lock", errors.New("lost"))
	for _, c := range []struct {
		name string
		step resttest.Step
		lost error
		want string
	}{
		{"a write", resttest.Step{Send: "POST " + maps + "?dryRun=All", Header: header, Body: `{"metadata":{"name":"f"}}`, Want: "201 ConfigMap f"}, nil, "lock true"},
		{"without one", resttest.Step{Send: "POST " + maps + "?dryRun=All", Body: `{"metadata":{"name":"f"}}`, Want: "201 ConfigMap f"}, nil, ""},
		{"a read", resttest.Step{Send: "GET " + maps, Header: header, Want: "200 ConfigMapList"}, lost, ""},
		{"a read with an unreadable one", resttest.Step{Send: "GET " + maps, Header: fence.Header + ": x", Want: "200 ConfigMapList"}, nil, ""},
		{"an unreadable one", resttest.Step{Send: "POST " + maps, Header: fence.Header + ": x", Body: "{}", Want: "400 the header " + fence.Header + ": ..."}, nil, ""},
		{"two", resttest.Step{Send: "POST " + maps, Header: header + "; +" + header, Body: "{}", Want: "400 the header " + fence.Header + " is set 2 times"}, nil, ""},
		{"it is lost", resttest.Step{Send: "POST " + maps, Header: header, Body: `{"metadata":{"name":"f"}}`,
			Want: `409 Operation cannot be fulfilled on leases.coordination.k8s.io "lock": lost`}, lost, "lock false"},
		{"a token", resttest.Step{Send: "POST " + resttest.Default + "serviceaccounts/default/token", Header: header, Body: "{}", Want: "409 ..."}, lost, "lock true"},
		{"a dry run that the body asks for", resttest.Step{Send: "DELETE " + maps + "/none", Header: header, Body: `{"dryRun":["All"]}`, Want: `404 ...`}, nil, "lock false,lock true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.T, w.Fenced, w.Lost = t, nil, c.lost
			w.Script([]resttest.Step{c.step})
			if got := strings.Join(w.Fenced, ","); got != c.want {
				t.Errorf("the checks were %q, want %q", got, c.want)
			}
		})
	}
}
