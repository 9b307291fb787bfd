package registry_test

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/patch"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// FuzzApply applies random input to objects of several kinds: an apply never panics, fails only
// with an API error, and never changes fields that are immutable or belong to the system.
func FuzzApply(f *testing.F) {
	for _, body := range []string{
		strings.ReplaceAll(template, "name: web", "name: x") + "      - {name: c, image: x}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","uid":"u","creationTimestamp":"2020-01-01T00:00:00Z","generation":7},"spec":{"nodeName":"n"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x","labels":null},"spec":{"replicas":"3","selector":{}}}`,
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":{"ports":[{"port":80},{"port":80}],"clusterIP":"None"}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","managedFields":null,"ownerReferences":[{"uid":"a"},{"uid":"a"}]}}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"data":{"a":"?"},"immutable":false}`,
		`{"apiVersion":"v1","kind":"Node","metadata":{"name":"x"},"spec":{"taints":[null]},"status":{"capacity":{"cpu":"x"}}}`,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":{"a":1},"volumes":[{"emptyDir":{}}]}}`,
		"[]", "null", "a", "{", "", "? {a: b}\n: c\n",
	} {
		for which := range uint8(6) {
			f.Add(which, []byte(body), false)
		}
	}
	w := newWorld(f)
	objects := fuzzed(w)
	patcher, err := patch.New(w.Table)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte, status bool) {
		before := objects[int(which)%len(objects)]
		kind := w.Table.KindOf(before)
		parsed, err := patcher.Parse("application/apply-patch+yaml", body, "Ignore")
		var answer apierrors.APIStatus
		if err != nil {
			if !errors.As(err, &answer) {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		opts := registry.UpdateOptions{FieldManager: "fuzz", Force: true, DryRun: true}
		if status {
			opts.Subresource = "status"
		}
		after, err := w.Resource(kind).Apply(t.Context(), before.GetNamespace(), before.GetName(), parsed.Wanted(),
			func(merged scheme.Object) error { return nil }, opts)
		if err != nil {
			if !errors.As(err, &answer) {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		checkKept(t, string(body), before, after)
	})
}
