package kinds_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
)

// TestEveryKindIsFilledIn puts objects into etcd as a program would that knows no defaults. All
// readers, over HTTP or on the bus, get the defaults; etcd stays as it is. An apiserver that
// restarts does not mistake what was published for evidence that etcd was reset.
func TestEveryKindIsFilledIn(t *testing.T) {
	t.Parallel()
	following := newFollowing(t)
	defer following.end()
	lacking := map[string]string{}
	defaults := builtin.All(builtin.Config{})
	var last *every
	forEvery(t, func(e *every) {
		if !e.kind.Stored() {
			return
		}
		last = e
		arrives := following.follow(e)
		version := e.read(e.do(http.MethodGet, e.collection(), asJSON, asJSON, "")).GetResourceVersion()
		for n := 1; n <= 2; n++ {
			name, value, filled := e.bare(n, defaults[e.kind.GroupVersionKind].Default)
			key := "/registry/" + e.kind.Key(e.namespace, name)
			e.etcd.Put(e.T, map[string]string{key: value})
			arrives(name)
			e.readsFilled(name, filled)
			switch {
			case n == 1:
				e.etcd.DeletePrefix(e.T, key)
				arrives(name)
				if got := strings.Join(e.watch(asJSON, "resourceVersion="+version), ", "); got != "ADDED , DELETED " {
					e.Errorf("a watch delivers %q, want ADDED and DELETED", got)
				}
			case filled != "":
				lacking[key] = value // The last change of its kind, by which etcd is recognized.
			}
		}
	})
	if len(lacking) < 10 {
		t.Errorf("only %d samples lack defaults", len(lacking))
	}
	before := last.etcd.Values(t, "/garboard/history")
	for key, value := range last.etcd.Values(t, "/registry/") {
		if was, ok := lacking[key]; ok && was != value {
			t.Errorf("reading %s wrote it", key)
		}
	}
	following.end()
	last.server.Stop()
	last.server.Start()
	if diff := cmp.Diff(before, last.etcd.Values(t, "/garboard/history")); diff != "" {
		t.Errorf("after a restart of the apiserver etcd has another history:\n%s", diff)
	}
}

// bare returns the nth sample as a program that knows no defaults would store it, and the JSON that
// a read must return; the JSON is empty if the sample has no defaults.
func (e *every) bare(n int, fill func(scheme.Object)) (name, value, filled string) {
	e.Helper()
	obj := e.set.Nth(e.kind, n, e.namespace)
	obj.SetUID("11111111-2222-4333-8444-555555555555")
	obj.SetCreationTimestamp(metav1.Unix(1_800_000_000, 0))
	obj.SetLabels(map[string]string{"every": "one"})
	if definition, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok { // The apiserver would write it itself.
		definition.Status.AcceptedNames = definition.Spec.Names
		for _, condition := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.NamesAccepted, apiextensionsv1.Established} {
			definition.Status.Conditions = append(definition.Status.Conditions, apiextensionsv1.CustomResourceDefinitionCondition{
				Type: condition, Status: apiextensionsv1.ConditionTrue,
			})
		}
	}
	if api, ok := obj.(*apiregistrationv1.APIService); ok { // As above.
		api.Status.Conditions = []apiregistrationv1.APIServiceCondition{{
			Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionFalse, Reason: "ServiceNotFound",
		}}
	}
	data, err := e.table.EncodeStorage(e.kind, obj)
	if err != nil {
		e.Fatal(err)
	}
	if fill != nil {
		was := e.encode(obj)
		fill(obj)
		if is := e.encode(obj); is != was {
			filled = is
		}
	}
	return obj.GetName(), string(data), filled
}

// readsFilled reads an object by its name and in lists, from etcd and from the watch cache, in JSON
// and protobuf.
func (e *every) readsFilled(name, filled string) {
	e.Helper()
	var wanted string
	check := func(at, form, got string) {
		e.Helper()
		got = atAnyTime(got)
		if wanted == "" {
			wanted = got
		}
		if got != wanted {
			e.Errorf("%s as %s differs from what was read before:\n%s", at, form, cmp.Diff(wanted, got))
		}
	}
	for _, form := range []string{asJSON, asProtobuf} {
		for _, at := range []string{e.at(name), e.at(name, "resourceVersion=0")} {
			check(at, form, e.typed(e.want(http.StatusOK, e.do(http.MethodGet, at, asJSON, form, "")).body))
		}
		for _, at := range []string{e.at("", labelled), e.at("", labelled, "resourceVersion=0")} {
			list, _, err := e.table.Codecs().UniversalDeserializer().Decode(e.do(http.MethodGet, at, asJSON, form, "").body, nil, nil)
			if err != nil {
				e.Fatal(err)
			}
			err = meta.EachListItem(list, func(item runtime.Object) error {
				if obj, ok := item.(scheme.Object); ok && obj.GetName() == name {
					obj.GetObjectKind().SetGroupVersionKind(e.kind.GroupVersionKind)
					check(at, form, e.encode(obj))
				}
				return nil
			})
			if err != nil {
				e.Fatal(err)
			}
		}
	}
	if filled == "" {
		return
	}
	got := e.kind.New()
	if err := json.Unmarshal([]byte(wanted), got); err != nil {
		e.Fatal(err)
	}
	got.SetResourceVersion("")
	if diff := cmp.Diff(atAnyTime(filled), atAnyTime(e.encode(got))); diff != "" {
		e.Errorf("%s lacks defaults:\n%s", name, diff)
	}
}

// atAnyTime replaces a default that is the time of the read with a fixed time.
func atAnyTime(text string) string {
	return regexp.MustCompile(`"timeAdded":"[^"]+"`).ReplaceAllString(text, `"timeAdded":"2026-01-01T00:00:00Z"`)
}
