package rest_test

import (
	"testing"

	"github.com/garboard/garboard/services/apiserver/internal/http/rest/resttest"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

const (
	eggsPath = "/apis/example.com/v1/namespaces/default/eggs"
	applied  = "Content-Type: application/apply-patch+yaml"
	patched  = "Content-Type: application/json-patch+json"
)

// egg returns the body of a request with an Egg.
func egg(name, spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Egg","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

// TestNullsOfACustomKind writes null where the schema allows it, and where it does not: decoding removes that from
// the body of a create or update, and from the result of a patch, but an apply is checked as it is.
func TestNullsOfACustomKind(t *testing.T) {
	w := newWorld(t)
	registrytest.Serve(t, w.Catalog, registrytest.Eggs(`
      inner: {type: object, properties: {a: {type: string}}},
      maybe: {type: object, nullable: true, properties: {a: {type: string}}},
      size: {type: string, default: large}`))
	apply := "PATCH " + eggsPath + "/a?fieldManager=me"
	const refused = `422 Egg.example.com "a" is invalid: spec.inner: Invalid value: "null": spec.inner in body must be of type object: "null"`
	w.Script([]resttest.Step{
		{Send: apply, Header: applied, Body: egg("a", `{"inner":null}`), Want: refused},
		{Send: apply, Header: applied, Body: egg("a", `{"inner":{"a":"x"},"maybe":{"a":"x"}}`), Want: "201 Egg a"},
		{Send: apply, Header: applied, Body: egg("a", `{"inner":{"a":"x"},"maybe":null}`), Want: "200 Egg a"},
		{Send: apply, Header: applied, Body: egg("a", `{"inner":null,"maybe":null}`), Want: refused},
		{Send: apply, Header: applied, Body: egg("a", `{"inner":{"a":"x"},"size":null}`), Want: "200 Egg a"},
		{Send: "POST " + eggsPath, Body: egg("b", `{"inner":null}`), Want: "201 Egg b"},
		{Send: "PATCH " + eggsPath + "/b", Header: patched, Body: `[{"op":"add","path":"/spec/inner","value":null}]`, Want: "200 Egg b"},
	})
}

// TestBodiesOfAnotherKind sends objects of other kinds and versions where one of a custom kind is expected.
func TestBodiesOfAnotherKind(t *testing.T) {
	w := newWorld(t)
	registrytest.Serve(t, w.Catalog, registrytest.Eggs("size: {type: string}"))
	const chick = `{"apiVersion":"example.com/v1","kind":"Chick","metadata":{"name":"a","resourceVersion":"1"}}`
	const refused = `422 Chick.example.com "a" is invalid: kind: Invalid value: "Chick": must be Egg`
	w.Script([]resttest.Step{
		{Send: "POST " + eggsPath, Body: chick, Want: refused},
		{Send: "PUT " + eggsPath + "/a", Body: chick, Want: `404 eggs.example.com "a" not found`},
		{Send: "POST " + eggsPath, Body: egg("a", "{}"), Want: "201 Egg a"},
		{Send: "PUT " + eggsPath + "/a", Body: chick, Want: refused},
		{Send: "PUT " + eggsPath + "/a/status", Body: chick, Want: refused},
		{Send: "PATCH " + eggsPath + "/a", Header: patched, Body: `[{"op":"replace","path":"/kind","value":"Chick"}]`, Want: refused},
		{Send: "PATCH " + eggsPath + "/a", Header: patched, Body: `[{"op":"replace","path":"/apiVersion","value":"example.com/v2"}]`,
			Want: `422 Egg.example.com "a" is invalid: apiVersion: Invalid value: "example.com/v2": must be example.com/v1`},
		{Send: "POST " + eggsPath, Body: `{"apiVersion":"example.com/v2","kind":"Egg","metadata":{"name":"b"}}`,
			Want: "400 the API version in the data (example.com/v2) does not match the expected API version (example.com/v1)"},
		{Send: "POST " + eggsPath, Body: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}`,
			Want: "400 the API version in the data (v1) does not match the expected API version (example.com/v1)"},
		{Send: "PATCH " + eggsPath + "/a?fieldManager=me", Header: applied, Body: chick,
			Want: "400 invalid object type: example.com/v1, Kind=Chick"},
		{Send: "PATCH " + eggsPath + "/a?fieldManager=me", Header: applied, Body: egg("a", `{"unknown":1}`),
			Want: "500 failed to create typed patch object (/a; example.com/v1, Kind=Egg): .spec.unknown: field not declared in schema"},
	})
}
