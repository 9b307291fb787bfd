package rest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/fence"
)

const deployments = "/apis/apps/v1/namespaces/default/deployments"

func TestScale(t *testing.T) {
	w := newWorld(t)
	const merge, apply = "Content-Type: application/merge-patch+json", "Content-Type: application/apply-patch+yaml"
	w.script([]step{
		{send: "POST " + deployments, body: `{"metadata":{"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":` +
			`{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, want: "201 Deployment web"},
		{send: "GET " + deployments + "/web/scale", want: "200 Scale web"},
		{send: "GET " + deployments + "/none/scale", want: `404 deployments.apps "none" not found`},
		{send: "PUT " + deployments + "/web/scale", body: `{"metadata":{"name":"web"},"spec":{"replicas":3}}`, want: "200 Scale web"},
		{send: "PUT " + deployments + "/web/scale", body: `{"metadata":{"name":"web"},"spec":{"replicas":-1}}`, want: `422 ...`},
		{send: "PUT " + deployments + "/web/scale", body: `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"web"}}`, want: "400 ..."},
		{send: "PUT " + deployments + "/web/scale?dryRun=1", body: `{"metadata":{"name":"web"}}`, want: `422 UpdateOptions.meta.k8s.io "" is invalid: ...`},
		{send: "PATCH " + deployments + "/web/scale", header: merge, body: `{"spec":{"replicas":5}}`, want: "200 Scale web"},
		{send: "PATCH " + deployments + "/web/scale", header: merge, body: `{"spec":{"rocket":5}}`, want: "200 Scale web",
			warns: []string{`unknown field "spec.rocket"`}},
		{send: "PATCH " + deployments + "/web/scale?fieldManager=m&force=1", header: apply,
			body: "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}, spec: {replicas: 7}}", want: "200 Scale web"},
		{send: "POST " + deployments + "/web/scale", body: "{}", want: "405 ..."},
		{send: "DELETE " + deployments + "/web/scale", want: "405 ..."},
		{send: "GET /api/v1/namespaces/default/configmaps/one/scale", want: "404 404 page not found"},
	})
	var scaled struct{ Spec struct{ Replicas int } }
	for _, path := range []string{"/web", "/web/scale"} {
		if err := json.NewDecoder(w.send("GET "+deployments+path, "", "").Body).Decode(&scaled); err != nil || scaled.Spec.Replicas != 7 {
			t.Errorf("%s has %d replicas, %v", path, scaled.Spec.Replicas, err)
		}
	}
}

const aPod = `{"metadata":{"name":"NAME"},"spec":{"containers":[{"name":"c","image":"i"}]}}`

// TestPodSubresources binds, evicts and reads the log of pods.
func TestPodSubresources(t *testing.T) {
	w := newWorld(t)
	const pods = defaultNS + "pods"
	for _, name := range []string{"p", "q", "r"} {
		w.script([]step{{send: "POST " + pods, body: strings.ReplaceAll(aPod, "NAME", name), want: "201 Pod " + name}})
	}
	w.script([]step{
		{send: "POST " + pods + "/p/binding", body: `{"metadata":{"name":"q"},"target":{"kind":"Node","name":"n1"}}`,
			want: "400 name in URL does not match name in Binding object"},
		{send: "POST " + pods + "/p/binding?dryRun=All", body: `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}`, want: "201 Status"},
		{send: "POST " + pods + "/p/binding", body: `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}`, want: "201 Status"},
		{send: "POST " + pods + "/p/binding", body: `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n2"}}`,
			want: `409 Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"`},
		{send: "POST " + pods + "/none/binding", body: `{"metadata":{"name":"none"},"target":{"kind":"Node","name":"n1"}}`, want: `404 pods "none" not found`},
		{send: "POST " + pods + "/q/binding?fieldValidation=Strict", body: `{"metadata":{"name":"q"},"target":{"kind":"Node","name":"n1"},"rocket":1}`, want: "400 ..."},
		{send: "POST " + pods + "/q/binding?dryRun=Some", body: `{}`, want: `422 CreateOptions.meta.k8s.io "" is invalid: ...`},
		{send: "POST " + defaultNS + "bindings", body: `{"metadata":{"name":"q"},"target":{"kind":"Node","name":"n1"}}`, want: "201 Status"},
		{send: "GET " + pods + "?fieldSelector=spec.nodeName%3Dn1", want: "200 PodList p q"},
		{send: "GET " + pods + "/p/binding", want: "405 ..."},
		{send: "POST " + pods + "/r/eviction", body: `{"metadata":{"name":"r"},"deleteOptions":{"dryRun":["All"]}}`, want: "201 Status"},
		{send: "GET " + pods + "/r", want: "200 Pod r"},
		{send: "POST " + pods + "/r/eviction", body: `{"metadata":{"name":"r"}}`, want: "201 Status"},
		{send: "GET " + pods + "/r", want: `404 pods "r" not found`},
		{send: "POST " + pods + "/r/eviction", body: `{"metadata":{"name":"r"}}`, want: `404 pods "r" not found`},
		{send: "POST " + pods + "/q/eviction", body: `{"kind":"Eviction","apiVersion":"policy/v1beta1","metadata":{"name":"q"}}`, want: "400 ..."},
		{send: "GET " + pods + "/p/log?follow=true", want: "200 log of default/p"},
		{send: "POST " + pods + "/p/log", body: "{}", want: "405 ..."},
		{send: "PUT " + pods + "/p/status", body: `{"metadata":{"name":"p"},"status":{"phase":"Running"}}`, want: "200 Pod p"},
		{send: "GET " + pods + "/p/status", want: "200 Pod p"},
		{send: "GET " + pods + "?fieldSelector=status.phase%3DRunning", want: "200 PodList p"},
		{send: "DELETE " + pods + "/p/status", want: "405 ..."},
	})
}

// TestTokens issues tokens that are bound to different objects.
func TestTokens(t *testing.T) {
	w := newWorld(t)
	const path = "POST " + defaultNS + "serviceaccounts/default/token"
	w.script([]step{
		{send: "POST " + defaultNS + "pods", body: strings.ReplaceAll(aPod, "NAME", "p"), want: "201 Pod p"},
		{send: "POST " + defaultNS + "serviceaccounts", body: `{"metadata":{"name":"robot"}}`, want: "201 ServiceAccount robot"},
		{send: path, body: `{"spec":{"expirationSeconds":100}}`,
			want: `422 TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 100: may not specify a duration less than 10 minutes`},
		{send: path, body: `{"spec":{"expirationSeconds":5000000000}}`, want: `422 TokenRequest.authentication.k8s.io "" is invalid: ...`},
		{send: path, body: `{"metadata":{"name":"robot"}}`, want: `422 TokenRequest.authentication.k8s.io "default" is invalid: metadata.name: Invalid value: "robot": ` +
			`must match the service account name if specified`},
		{send: path, body: `{"metadata":{"namespace":"other"}}`, want: "400 the namespace of the provided object does not match the namespace sent on the request"},
		{send: "POST " + defaultNS + "serviceaccounts/none/token", body: `{}`, want: `404 serviceaccounts "none" not found`},
		{send: path, body: `{"spec":{"boundObjectRef":{"kind":"ConfigMap","apiVersion":"v1","name":"c"}}}`, want: "400 cannot bind token to object of type /v1, Kind=ConfigMap"},
		{send: path, body: `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"none"}}}`, want: `404 pods "none" not found`},
		{send: path, body: `{"spec":{"boundObjectRef":{"kind":"Node","apiVersion":"v1","name":"none"}}}`, want: `404 nodes "none" not found`},
		{send: path, body: `{"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"none"}}}`, want: `404 secrets "none" not found`},
		{send: path, body: `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"other"}}}`, want: `409 ...`},
		{send: "POST " + defaultNS + "serviceaccounts/robot/token", body: `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}}`,
			want: `400 cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.`},
		{send: path + "?dryRun=none", body: `{}`, want: `422 CreateOptions.meta.k8s.io "" is invalid: ...`},
		{send: "GET " + defaultNS + "serviceaccounts/default/token", want: "405 ..."},
	})
	for _, c := range []struct {
		name, body string
		life       time.Duration
		audience   string
		warned     bool
	}{
		{"the defaults", `{}`, time.Hour, "the-api", false},
		{"for another audience", `{"spec":{"audiences":["vault"],"expirationSeconds":600}}`, 10 * time.Minute, "vault", false},
		{"for too long", `{"spec":{"expirationSeconds":100000}}`, 2 * time.Hour, "the-api", true},
		{"of a pod", `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}}`, time.Hour, "the-api", false},
	} {
		r := w.send(path, "", c.body)
		var answer authenticationv1.TokenRequest
		if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || r.StatusCode != 201 {
			t.Fatalf("%s: %s, %v", c.name, r.Status, err)
		}
		life := time.Until(answer.Status.ExpirationTimestamp.Time)
		if answer.Status.Token == "" || answer.Name != "default" || answer.Namespace != "default" || life > c.life || life < c.life-time.Minute {
			t.Errorf("%s: got %+v, which lives for %v", c.name, answer, life)
		}
		if len(answer.Spec.Audiences) != 1 || answer.Spec.Audiences[0] != c.audience || *answer.Spec.ExpirationSeconds != int64(c.life/time.Second) {
			t.Errorf("%s: got %+v", c.name, answer.Spec)
		}
		if warned := r.Header.Get("Warning") != ""; warned != c.warned {
			t.Errorf("%s: the warning is %q", c.name, r.Header.Get("Warning"))
		}
	}
}

// TestVirtualKinds asks for reviews and for what is found out when it is asked for.
func TestVirtualKinds(t *testing.T) {
	w := newWorld(t)
	const review, local = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews", "POST /apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
	old := []string{"v1 ComponentStatus is deprecated in v1.19+"}
	w.script([]step{
		{send: review, body: `{}`, want: "201 SelfSubjectReview - answered=yes"},
		{send: review, body: `{"metadata":{"namespace":"default"}}`, want: "400 namespace must not be set on a cluster-scoped object"},
		{send: review + "?dryRun=x", body: `{}`, want: `422 CreateOptions.meta.k8s.io "" is invalid: ...`},
		{send: review + "?fieldValidation=Strict", body: `{"rocket":1}`, want: "400 ..."},
		{send: review, body: `{"kind":"Pod","apiVersion":"v1"}`, want: "400 ..."},
		{send: review, header: "Accept: application/json;as=Table;g=meta.k8s.io;v=v1", body: "{}", want: "406 ..."},
		{send: local, body: `{}`, want: "405 create is not supported on resources of kind \"localsubjectaccessreviews.authorization.k8s.io\""},
		{send: "GET /apis/authentication.k8s.io/v1/selfsubjectreviews", want: "405 ..."},
		{send: "GET /api/v1/componentstatuses", want: "200 ComponentStatusList etcd-0 scheduler", warns: old},
		{send: "GET /api/v1/componentstatuses/etcd-0", want: "200 ComponentStatus etcd-0", warns: old},
		{send: "GET /api/v1/componentstatuses/none", want: `404 componentstatuses "none" not found`, warns: old},
		{send: "GET /api/v1/componentstatuses?labelSelector=role%3Dstore", want: "200 ComponentStatusList etcd-0", warns: old},
		{send: "GET /api/v1/componentstatuses?fieldSelector=metadata.name%3Dscheduler", want: "200 ComponentStatusList scheduler", warns: old},
		{send: "GET /api/v1/componentstatuses?labelSelector=%21%21", want: "400 ...", warns: old},
		{send: "GET /api/v1/componentstatuses?fieldSelector=x", want: "400 ...", warns: old},
		{send: "GET /api/v1/componentstatuses?limit=x", want: "400 ...", warns: old},
		{send: "GET /api/v1/componentstatuses", header: "Accept: application/json;as=Table;g=meta.k8s.io;v=v1", want: "200 Table etcd-0 scheduler", warns: old},
		{send: "DELETE /api/v1/componentstatuses/etcd-0", want: "405 ..."},
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
		step step
		lost error
		want string
	}{
		{"a write", step{send: "POST " + maps + "?dryRun=All", header: header, body: `{"metadata":{"name":"f"}}`, want: "201 ConfigMap f"}, nil, "lock true"},
		{"without one", step{send: "POST " + maps + "?dryRun=All", body: `{"metadata":{"name":"f"}}`, want: "201 ConfigMap f"}, nil, ""},
		{"a read", step{send: "GET " + maps, header: header, want: "200 ConfigMapList"}, lost, ""},
		{"a read with an unreadable one", step{send: "GET " + maps, header: fence.Header + ": x", want: "200 ConfigMapList"}, nil, ""},
		{"an unreadable one", step{send: "POST " + maps, header: fence.Header + ": x", body: "{}", want: "400 the header " + fence.Header + ": ..."}, nil, ""},
		{"two", step{send: "POST " + maps, header: header + "; +" + header, body: "{}", want: "400 the header " + fence.Header + " is set 2 times"}, nil, ""},
		{"it is lost", step{send: "POST " + maps, header: header, body: `{"metadata":{"name":"f"}}`,
			want: `409 Operation cannot be fulfilled on leases.coordination.k8s.io "lock": lost`}, lost, "lock false"},
		{"a token", step{send: "POST " + defaultNS + "serviceaccounts/default/token", header: header, body: "{}", want: "409 ..."}, lost, "lock true"},
		{"a dry run that the body asks for", step{send: "DELETE " + maps + "/none", header: header, body: `{"dryRun":["All"]}`, want: `404 ...`}, nil, "lock false,lock true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t, w.fenced, w.lost = t, nil, c.lost
			w.script([]step{c.step})
			if got := strings.Join(w.fenced, ","); got != c.want {
				t.Errorf("the checks were %q, want %q", got, c.want)
			}
		})
	}
}
