package rest_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/services/apiserver/internal/http/rest/resttest"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

const (
	merged    = "Content-Type: application/merge-patch+json"
	strategic = "Content-Type: application/strategic-merge-patch+json"
	inYAML    = "Content-Type: application/yaml"
	inBinary  = "Content-Type: application/vnd.kubernetes.protobuf"
	limits    = resttest.Default + "limitranges"
	// costly takes seconds to parse, and large to compare.
	costly, large = "1e-30000000", "1e300000000"
)

// limit returns the JSON of a LimitRange with a label and a minimum, which is JSON.
func limit(name, label, minimum string) string {
	return `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"` + name + `","labels":{"version":"` + label + `"}},"spec":{"limits":[{"type":"Container","min":{"cpu":` + minimum + `}}]}}`
}

// quick fails a test whose requests take minutes together, as those do that parse what is costly.
func quick(t *testing.T) {
	t.Helper()
	start := time.Now()
	t.Cleanup(func() {
		if took := time.Since(start); took > time.Minute {
			t.Errorf("the requests took %v", took)
		}
	})
}

// inProtobuf returns a LimitRange in protobuf.
func inProtobuf(w *world, body string) string {
	w.T.Helper()
	obj, _, err := w.Table.Codecs().UniversalDeserializer().Decode([]byte(body), nil, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	info, _ := runtime.SerializerInfoForMediaType(w.Table.Codecs().SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	var data bytes.Buffer
	if err := info.Serializer.Encode(obj, &data); err != nil {
		w.T.Fatal(err)
	}
	return data.String()
}

// TestCostlyQuantities sends quantities that take long to parse or to compare, in all forms that a request has, and what looks
// like them.
func TestCostlyQuantities(t *testing.T) {
	w := newWorld(t)
	quick(t)
	const refused = `400 LimitRange in version "v1" cannot be handled as a LimitRange: quantity "1e`
	const unpatched = `400 the patch cannot be applied: quantity "1e`
	digits := strings.Repeat("1", 400)
	hostile := inProtobuf(w, limit("a", "x", `"123456789k"`))
	if strings.Count(hostile, "123456789k") != 1 {
		t.Fatalf("the protobuf is %q", hostile)
	}
	w.Script([]resttest.Step{
		{Send: "POST " + resttest.Default + "pods", Body: `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1","hugepages-1e-30000000":"1"}}}]}}`,
			Want: `422 Pod "a" is invalid: ...`},
		{Send: "POST " + resttest.Default + "pods", Body: `{"metadata":{"name":"b"},"spec":{"volumes":[{"name":"v","emptyDir":{"medium":"HugePages-1e-30000000"}}],"containers":[{"name":"c","image":"i"}]}}`,
			Want: "201 Pod b"},
		{Send: "POST " + limits, Body: limit("a", "1e12345", `"`+costly+`"`), Want: refused + "..."},
		{Send: "POST " + limits, Body: limit("a", "x", costly), Want: refused + "..."},
		{Send: "POST " + limits, Body: limit("a", "x", `"`+large+`"`), Want: refused + "..."},
		{Send: "POST " + limits, Body: limit("a", "x", `"`+digits+`"`), Want: strings.TrimSuffix(refused, "e") + "11..."},
		{Send: "POST " + limits, Body: limit("a", "x", `"\u0031e-30000000"`), Want: `400 LimitRange in version "v1" cannot be handled as a LimitRange: quantities must match...`},
		{Send: "POST " + limits, Header: inYAML, Body: limit("a", "x", `"1\x65-30000000"`), Want: refused + "..."},
		{Send: "POST " + limits, Header: inBinary, Body: strings.Replace(hostile, "123456789k", "1e30000000", 1), Want: refused + "..."},
		{Send: "POST " + limits, Body: limit("a", "1e12345", `"1e3"`), Want: "201 LimitRange a"},
		{Send: "POST " + limits, Header: inBinary, Body: inProtobuf(w, limit("b", "1e12345", `"123456789012345678901234567890"`)), Want: "201 LimitRange b"},
		{Send: "POST " + limits, Header: inYAML, Body: limit("c", "1e12345", `"1e3"`), Want: "201 LimitRange c"},
		{Send: "PUT " + limits + "/a", Body: limit("a", "x", `"`+costly+`"`), Want: refused + "..."},
		{Send: "PATCH " + limits + "/a", Header: merged, Body: limit("a", "1e12345", `"`+costly+`"`), Want: unpatched + "..."},
		{Send: "PATCH " + limits + "/a", Header: merged, Body: limit("a", "x", costly), Want: unpatched + "..."},
		{Send: "PATCH " + limits + "/a", Header: strategic, Body: limit("a", "1e12345", `"1\u0065-30000000"`), Want: unpatched + "..."},
		{Send: "PATCH " + limits + "/a", Header: patched, Body: `[{"op":"add","path":"/spec/limits/0/min/memory","value":"` + large + `"}]`, Want: unpatched + "..."},
		{Send: "PATCH " + limits + "/a?fieldManager=me&force=true", Header: applied, Body: limit("a", "1e12345", `"1\u0065-30000000"`), Want: `400 quantity "1e...`},
		{Send: "PATCH " + limits + "/new?fieldManager=me", Header: applied, Body: "apiVersion: v1\nkind: LimitRange\nmetadata: {name: new}\nspec: {limits: [{type: Pod, min: {cpu: \"1\\x65-30000000\"}}]}\n",
			Want: `400 quantity "1e-30000000" has an exponent of more than 3 digits`},
		{Send: "PATCH " + limits + "/a", Header: merged, Body: limit("a", "1e23456", `"1e2"`), Want: "200 LimitRange a"},
		{Send: "PATCH " + limits + "/a", Header: strategic, Body: `{"metadata":{"annotations":{"digits":"` + digits + `"}}}`, Want: "200 LimitRange a"},
		{Send: "PATCH " + limits + "/a", Header: patched, Body: `[{"op":"add","path":"/metadata/labels/of","value":"1e34567"}]`, Want: "200 LimitRange a"},
		{Send: "PATCH " + limits + "/a?fieldManager=me&force=true", Header: applied, Body: limit("a", "1e45678", `"1e3"`), Want: "200 LimitRange a"},
		{Send: "POST " + resttest.Default + "configmaps", Body: `{"metadata":{"name":"a"},"data":{"a":"` + digits + `","b":"1e300000000","c":"{\"d\":1e30000}"}}`, Want: "201 ConfigMap a"},
	})
}

// TestCostlyQuantitiesOfACustomKind evaluates a rule that parses what a user wrote.
func TestCostlyQuantitiesOfACustomKind(t *testing.T) {
	w := newWorld(t)
	registrytest.Serve(t, w.Catalog, registrytest.Eggs(`
      size: {type: string, maxLength: 500, x-kubernetes-validations: [{rule: "quantity(self).isLessThan(quantity('10'))"}]},
      maybe: {type: string, maxLength: 500, x-kubernetes-validations: [{rule: "isQuantity(self)", message: "is none"}]},
      parts: {type: array, maxItems: 5, items: {type: string, maxLength: 50}, x-kubernetes-validations: [{rule: "isQuantity(self[0] + self[1])", message: "is none"}]}`))
	quick(t)
	post := "POST " + eggsPath
	w.Script([]resttest.Step{
		{Send: post, Body: egg("a", `{"size":"1e-30000000"}`), Want: `422 Egg.example.com "a" is invalid: spec.size: Invalid value: "string": quantity "1e-30000000" has an exponent of more than 3 digits evaluating rule...`},
		{Send: post, Body: egg("a", `{"size":"1e300000000"}`), Want: `422 Egg.example.com "a" is invalid: spec.size: Invalid value: "string": quantity "1e300000000" has...`},
		{Send: post, Body: egg("a", `{"size":"`+strings.Repeat("1", 400)+`"}`), Want: `422 Egg.example.com "a" is invalid: spec.size: ...`},
		{Send: post, Body: egg("a", `{"parts":["1e-30","000000"]}`), Want: `422 Egg.example.com "a" is invalid: spec.parts: ...`},
		{Send: post, Body: egg("a", `{"maybe":"1e-30000000"}`), Want: `422 Egg.example.com "a" is invalid: spec.maybe: Invalid value: "1e-30000000": is none`},
		{Send: post, Body: egg("a", `{"maybe":"abc"}`), Want: `422 Egg.example.com "a" is invalid: spec.maybe: Invalid value: "abc": is none`},
		{Send: post, Body: egg("a", `{"size":"11"}`), Want: `422 Egg.example.com "a" is invalid: spec.size: Invalid value: "11": failed rule: quantity(self).isLessThan(quantity('10'))`},
		{Send: post, Body: egg("a", `{"size":"1e-3","maybe":"1e999","parts":["1","e3"]}`), Want: "201 Egg a"},
	})
}
