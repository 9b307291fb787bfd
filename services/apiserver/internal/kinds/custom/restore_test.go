package custom

import "testing"

// TestRestoreOfAnotherVersion checks that an object of an earlier stored version has the defaults of that version,
// and none of the present one.
func TestRestoreOfAnotherVersion(t *testing.T) {
	found, err := kindsOf(t, definitionOf(t, head+`
- {name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {color: {type: string, default: red}}}}}
- {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {color: {type: string}, unit: {type: string, default: mm}}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	older := gadget(t, "rocket: 1")
	if err := found["v2"].Restore(older); err != nil {
		t.Fatal(err)
	}
	if older.GetAPIVersion() != "example.org/v2" || older.Object["color"] != "red" || older.Object["unit"] != nil || older.Object["rocket"] != nil {
		t.Errorf("restored as %v", older.Object)
	}
}
