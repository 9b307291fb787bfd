package custom

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestConversionPrunes checks that neither the stored version nor the one that is returned has fields of the other.
func TestConversionPrunes(t *testing.T) {
	found, err := kindsOf(t, definitionOf(t, head+`
- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {radius: {type: integer}, color: {type: string}}}}}
- {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {radius: {type: integer}, unit: {type: string}}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	newer := gadget(t, "radius: 1\nunit: mm")
	newer.SetAPIVersion("example.org/v2")
	stored, err := found["v2"].ToStored.One(newer)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(gadget(t, "radius: 1").Object, content(stored).Object); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if newer.Object["unit"] != "mm" {
		t.Error("the conversion changed its argument")
	}
	returned, err := found["v2"].FromStored.One(gadget(t, "radius: 1\ncolor: red"))
	if err != nil {
		t.Fatal(err)
	}
	want := gadget(t, "radius: 1")
	want.SetAPIVersion("example.org/v2")
	if diff := cmp.Diff(want.Object, content(returned).Object); diff != "" {
		t.Errorf("returned (-want +got):\n%s", diff)
	}
}
