package serviceendpoints

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at returns a pod of a Service that became ready so many seconds after the beginning.
func at(name string, seconds int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(int64(1000+seconds), 0),
		}}},
	}
}

// TestTriggers has the time of the last change after each of several states.
func TestTriggers(t *testing.T) {
	type state struct {
		created int
		pods    []*corev1.Pod
		want    int // seconds after the beginning; -1 is none
	}
	for name, states := range map[string][]state{
		"a new Service":            {{2, nil, 2}},
		"with older and newer":     {{3, []*corev1.Pod{at("a", 0), at("b", 1), at("c", 5)}, 3}},
		"pods come":                {{0, nil, 0}, {0, []*corev1.Pod{at("a", 2), at("b", 1)}, 1}},
		"pods change":              {{0, []*corev1.Pod{at("a", 1), at("b", 2), at("c", 3)}, 0}, {0, []*corev1.Pod{at("a", 5), at("b", 4), at("c", 3)}, 4}},
		"nothing changes":          {{0, []*corev1.Pod{at("a", 1)}, 0}, {0, []*corev1.Pod{at("a", 1)}, -1}},
		"one goes and comes":       {{0, []*corev1.Pod{at("a", 1), at("b", 2)}, 0}, {0, []*corev1.Pod{at("a", 1)}, -1}, {0, []*corev1.Pod{at("a", 1), at("b", 4)}, 4}},
		"the Service is made anew": {{0, []*corev1.Pod{at("a", 1)}, 0}, {7, []*corev1.Pod{at("a", 1)}, 7}},
	} {
		var triggers Triggers
		for i, s := range states {
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "web", CreationTimestamp: metav1.Unix(int64(1000+s.created), 0),
			}}
			got := triggers.Note(svc, s.pods)
			if s.want < 0 && !got.IsZero() || s.want >= 0 && got.Unix() != int64(1000+s.want) {
				t.Errorf("%s: state %d: got %v, want %d s", name, i, got, s.want)
			}
		}
	}
}

func TestTriggersForget(t *testing.T) {
	var triggers Triggers
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", CreationTimestamp: metav1.Unix(1000, 0)}}
	for name, forget := range map[string]func(){
		"it":  func() { triggers.Forget(controller.Key{Namespace: "default", Name: "web"}) },
		"all": triggers.Reset,
	} {
		triggers.Note(svc, nil)
		if got := triggers.Note(svc, nil); !got.IsZero() {
			t.Errorf("%s: got %v for what has not changed", name, got)
		}
		forget()
		if got := triggers.Note(svc, nil); got.Unix() != 1000 {
			t.Errorf("%s: got %v, want the creation", name, got)
		}
	}
}

func TestAnnotate(t *testing.T) {
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("x", 3600))
	got := Annotate(nil, when)
	if got[corev1.EndpointsLastChangeTriggerTime] != "2026-01-02T02:04:05Z" {
		t.Errorf("got %v", got)
	}
	if got = Annotate(got, time.Time{}); len(got) != 0 {
		t.Errorf("got %v, want none", got)
	}
}

func TestSelects(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1", "b": ""}}}
	for name, test := range map[string]struct {
		selector map[string]string
		want     bool
	}{
		"none":              {nil, false},
		"empty":             {map[string]string{}, false},
		"a label":           {map[string]string{"a": "1"}, true},
		"two":               {map[string]string{"a": "1", "b": ""}, true},
		"another value":     {map[string]string{"a": "2"}, false},
		"one that it lacks": {map[string]string{"a": "1", "c": ""}, false},
	} {
		if got := Selects(&corev1.Service{Spec: corev1.ServiceSpec{Selector: test.selector}}, pod); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}

// TestReuse checks that creations take the place of deletions, but not of another type of addresses, nor
// of slices that must go.
func TestReuse(t *testing.T) {
	slice := func(name string, addressType discoveryv1.AddressType) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7"}, AddressType: addressType}
	}
	p := Plan{
		Create: []*discoveryv1.EndpointSlice{slice("", "IPv4"), slice("", "IPv4"), slice("", "IPv6")},
		Delete: []*discoveryv1.EndpointSlice{slice("foreign", "IPv4"), slice("old", "IPv4"), slice("name", "FQDN")},
	}
	p.Reuse(func(s *discoveryv1.EndpointSlice) bool { return s.Name != "foreign" })
	var deleted []string
	for _, s := range p.Delete {
		deleted = append(deleted, s.Name)
	}
	if len(p.Create) != 2 || len(p.Update) != 1 || p.Update[0].Name != "old" || p.Update[0].ResourceVersion != "7" ||
		!slices.Equal(deleted, []string{"foreign", "name"}) {
		t.Errorf("got %d creations, updates %v, deletions %q", len(p.Create), p.Update, deleted)
	}
}

func TestNamePrefix(t *testing.T) {
	long := strings.Repeat("a", 254) // Too long with a dash.
	for name, want := range map[string]string{"web": "web-", long: long} {
		if got := NamePrefix(name); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestWhatMakesOtherEndpoints has which changes of a pod matter.
func TestWhatMakesOtherEndpoints(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"its annotations": {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, false},
		"its version":     {func(p *corev1.Pod) { p.ResourceVersion = "7" }, false},
		"when it was ready": {func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.Unix(7, 0)
		}, false},
		"whether it is ready": {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"its deletion":        {func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Time) }, true},
		"its addresses":       {func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "10.1.0.1"}} }, true},
		"its hostname":        {func(p *corev1.Pod) { p.Spec.Hostname = "x" }, true},
	} {
		now := at("a", 1)
		test.change(now)
		if got := differ(at("a", 1), now); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}

func TestPortKey(t *testing.T) {
	port := func(text string) discoveryv1.EndpointPort {
		var name, protocol, app string
		var number int32
		if _, err := fmt.Sscan(strings.ReplaceAll(text, "/", " "), &name, &number, &protocol, &app); err != nil {
			t.Fatal(err)
		}
		p := discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: (*corev1.Protocol)(&protocol)}
		if app != "-" {
			p.AppProtocol = &app
		}
		return p
	}
	key := func(texts ...string) string {
		var ports []discoveryv1.EndpointPort
		for _, text := range texts {
			ports = append(ports, port(text))
		}
		return PortKey(ports)
	}
	if key("a/1/TCP/-", "b/2/TCP/-") != key("b/2/TCP/-", "a/1/TCP/-") {
		t.Error("the order makes a difference")
	}
	keys := []string{
		key(), key("a/1/TCP/-"), key("b/1/TCP/-"), key("a/2/TCP/-"), key("a/1/UDP/-"), key("a/1/TCP/http"), key("a/1/TCP/-", "b/2/TCP/-"),
	}
	slices.Sort(keys)
	if n := len(slices.Compact(keys)); n != 7 {
		t.Errorf("got %d different keys, want 7", n)
	}
}

func TestSame(t *testing.T) {
	yes, no, node, other := true, false, "n1", "n2"
	endpoint := func() *discoveryv1.Endpoint {
		return &discoveryv1.Endpoint{
			Addresses: []string{"b", "a"}, NodeName: &node, Zone: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: "p", UID: "1", ResourceVersion: "5"},
		}
	}
	for name, test := range map[string]struct {
		change func(*discoveryv1.Endpoint)
		want   bool
	}{
		"nothing":           {func(*discoveryv1.Endpoint) {}, true},
		"hints":             {func(e *discoveryv1.Endpoint) { e.Hints = &discoveryv1.EndpointHints{} }, true},
		"the pod's version": {func(e *discoveryv1.Endpoint) { e.TargetRef.ResourceVersion = "6" }, true},
		"the pod":           {func(e *discoveryv1.Endpoint) { e.TargetRef.UID = "2" }, false},
		"no pod":            {func(e *discoveryv1.Endpoint) { e.TargetRef = nil }, false},
		"the node":          {func(e *discoveryv1.Endpoint) { e.NodeName = &other }, false},
		"no zone":           {func(e *discoveryv1.Endpoint) { e.Zone = nil }, false},
		"ready":             {func(e *discoveryv1.Endpoint) { e.Conditions.Ready = &no }, false},
		"serving":           {func(e *discoveryv1.Endpoint) { e.Conditions.Serving = nil }, false},
		"terminating":       {func(e *discoveryv1.Endpoint) { e.Conditions.Terminating = &yes }, false},
	} {
		changed := endpoint()
		test.change(changed)
		if got := Same(endpoint(), changed); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
	sorted := endpoint()
	sorted.Addresses = []string{"a", "b"}
	if Identify(endpoint()) != Identify(sorted) {
		t.Error("the order of addresses makes another endpoint")
	}
	sorted.Hostname = &node
	if Identify(endpoint()) == Identify(sorted) {
		t.Error("the hostname makes no other endpoint")
	}
}
