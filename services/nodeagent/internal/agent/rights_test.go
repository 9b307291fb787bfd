package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client"
)

// restricted is the client of a node: a call that Kubernetes' node authorizer would refuse fails
// the test.
type restricted struct {
	client.Interface
	w *world
}

// errAway is the error of every call while the apiserver is unavailable.
var errAway = errors.New("dial tcp 127.0.0.1:6443: connect: connection refused")

// Do makes a call.
func (r restricted) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if r.w.away.Load() {
		return errAway
	}
	r.check(ctx, call)
	return r.Interface.Do(ctx, call, into)
}

// Watch opens a watch.
func (r restricted) Watch(ctx context.Context, call client.Call) (watch.Interface, error) {
	if r.w.away.Load() {
		return nil, errAway
	}
	r.check(ctx, call)
	return r.Interface.Watch(ctx, call)
}

// Stream would make a streamed call; a node makes none.
func (r restricted) Stream(_ context.Context, call client.Call) (io.ReadCloser, error) {
	return nil, fmt.Errorf("the node streams %s: %w", call.Kind.Resource, errAway)
}

func (r restricted) check(ctx context.Context, call client.Call) {
	if ctx.Err() == nil && !r.allowed(call) {
		r.w.t.Errorf("the node may not %s %s/%s of %s/%s (%+v)", call.Verb, call.Kind.Resource, call.Subresource, call.Namespace, call.Name, call.Options)
	}
}

// allowed implements the rules of https://kubernetes.io/docs/reference/access-authn-authz/node/.
func (r restricted) allowed(call client.Call) bool {
	is := func(verbs ...string) bool { return slices.Contains(verbs, call.Verb) }
	resource := call.Kind.Resource
	if call.Subresource != "" {
		resource += "/" + call.Subresource
	}
	switch resource {
	case "nodes":
		return is("create") || is("get", "list", "watch", "update", "patch") && call.Name == nodeName
	case "nodes/status":
		return is("update", "patch") && call.Name == nodeName
	case "leases":
		return call.Namespace == corev1.NamespaceNodeLease && (is("create") || is("get", "update", "patch", "delete") && call.Name == nodeName)
	case "events":
		return is("create", "update", "patch")
	case "services":
		return is("get", "list", "watch")
	case "pods":
		opts, _ := call.Options.(*metav1.ListOptions)
		return is("list", "watch") && opts != nil && opts.FieldSelector == "spec.nodeName="+nodeName || is("delete")
	case "pods/status":
		return is("update", "patch")
	case "secrets", "configmaps":
		return is("get") && r.refers(call.Namespace, call.Name)
	case "serviceaccounts/token":
		asked, _ := call.Body.(*authenticationv1.TokenRequest)
		return is("create") && asked != nil && asked.Spec.BoundObjectRef != nil && asked.Spec.BoundObjectRef.Kind == "Pod" &&
			asked.Spec.BoundObjectRef.UID != "" && len(asked.Spec.Audiences) <= 1
	}
	return false
}

// refers reports whether a current or former pod of the node refers to an object.
func (r restricted) refers(namespace, name string) bool {
	pods, _, err := client.Of[*corev1.Pod](r.Interface).List(context.WithoutCancel(r.w.t.Context()), namespace,
		metav1.ListOptions{FieldSelector: "spec.nodeName=" + nodeName})
	if err != nil {
		r.w.t.Errorf("listing pods: %v", err)
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		spec, err := json.Marshal(pod.Spec)
		return err == nil && strings.Contains(string(spec), `"`+name+`"`)
	})
}
