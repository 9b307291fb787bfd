package custom

import (
	"slices"
	"strings"
	"testing"
)

const ruled = `schema: {openAPIV3Schema: {type: object, required: [spec], properties: {
  spec: {type: object, properties: {
    size: {type: string, enum: [small, large]},
    count: {type: integer, minimum: 1},
    set: {type: array, x-kubernetes-list-type: set, items: {type: string}},
    map: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}}}},
    fixed: {type: string, x-kubernetes-validations: [{rule: self == oldSelf, message: is fixed}]},
    within: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true},
    odd: {type: integer, x-kubernetes-validations: [{rule: self != 7}]},
    free: {type: object, x-kubernetes-preserve-unknown-fields: true}},
    x-kubernetes-validations: [{rule: "!has(self.count) || self.count < 100", fieldPath: .count, reason: FieldValueForbidden}]},
  status: {type: object, properties: {
    seen: {type: integer, maximum: 10, x-kubernetes-validations: [{rule: self != 5}]},
    set: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}}}}`

const parts = `subresources: {status: {}, scale: {specReplicasPath: .spec.free.count, statusReplicasPath: .status.count, labelSelectorPath: .status.s}}, ` +
	`schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}`

// TestValidation checks the errors in new objects.
func TestValidation(t *testing.T) {
	checked, scaled := kindOfVersion(t, "subresources: {status: {}}, "+ruled), kindOfVersion(t, parts)
	for _, c := range []struct{ fields, want string }{
		{"spec: {size: small, count: 1, set: [a, b], map: [{k: a}, {k: b}], fixed: x}", ""},
		{"data: 1", "spec: Required value | <nil>: Invalid value: null: some ..."},
		{"spec: {size: huge}", `spec.size: Unsupported value: "huge": supported values: "small", "large" | <nil>: Invalid value: null: some validation rules were not checked ` +
			"because the object was invalid; correct the existing errors to complete validation"},
		{"spec: {count: 0}", "spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1"},
		{"spec: {count: x}", `spec.count: Invalid value: "string": spec.count in body must be of type integer: "string" | ` +
			"<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"},
		{"spec: {count: 100}", "spec.count: Forbidden: failed rule: !has(self.count) || self.count < 100"},
		{"spec: {set: [a, a]}", `spec.set[1]: Duplicate value: "a"`},
		{"spec: {map: [{k: a}, {k: a}]}", `spec.map[1]: Duplicate value: {"k":"a"}`},
		{"spec: {within: {kind: A}}", "spec.within.apiVersion: Required value | <nil>: Invalid value: null: some ..."},
		{"metadata: {name: G, namespace: default}\nspec: {}", `metadata.name: Invalid value: "G": a lowercase RFC 1123 subdomain must consist of lower case ...`},
		{"metadata: {name: g, namespace: default, labels: 7}\nspec: {}", "metadata: Invalid value: ..."},
	} {
		compare(t, c.fields, texts(checked.Validate(gadget(t, c.fields))), c.want)
	}
	for _, c := range []struct{ fields, want string }{
		{"spec: {free: {count: 1}}\nstatus: {count: 1, s: a=b}", ""},
		{"spec: {free: {count: -1}}\nstatus: {count: 3000000000}", ".spec.free.count: Invalid value: -1: should be a non-negative integer | .status.count: Invalid value: 3000000000: should be less than or equal to 2147483647"},
		{"spec: {free: {count: x}}", `.spec.free.count: Invalid value: 0: .spec.free.count accessor error: x is of the type string, expected int64`},
		{"status: {s: 1}", `.status.s: Invalid value: "": .status.s accessor error: 1 is of the type int64, expected string`},
	} {
		compare(t, c.fields, texts(scaled.Validate(gadget(t, c.fields))), c.want)
	}
}

// TestUpdateValidation checks the errors in changes: what was invalid before and is unchanged may stay.
func TestUpdateValidation(t *testing.T) {
	kind := kindOfVersion(t, "subresources: {status: {}}, "+ruled)
	for _, c := range []struct{ old, fields, want string }{
		{"spec: {size: small}", "spec: {size: large}", ""},
		{"spec: {size: huge}", "spec: {size: huge, count: 1}", ""},
		{"spec: {size: huge}", "spec: {size: vast}", `spec.size: Unsupported value: "vast": supported values: "small", "large" | <nil>: Invalid value: null: some ...`},
		{"spec: {fixed: a}", "spec: {fixed: b}", `spec.fixed: Invalid value: "b": is fixed`},
		{"spec: {set: [a, a]}", "spec: {set: [a, a, a]}", ""},
		{"spec: {set: [a]}", "spec: {set: [a, a]}", `spec.set[1]: Duplicate value: "a"`},
		{"spec: {count: 100}", "spec: {count: 100, size: small}", "spec.count: Forbidden: failed rule: ..."},
		{"spec: {odd: 7}", "spec: {odd: 7, count: 1}", ""},
		{"spec: {odd: 6}", "spec: {odd: 7}", "spec.odd: Invalid value: 7: failed rule: self != 7"},
		{"spec: {}", "spec: {within: {apiVersion: v1, kind: A, metadata: {labels: {a b: c}}}}", `spec.within.metadata.labels: Invalid value: "a b": ...`},
		{"spec: {}", "metadata: {name: h, namespace: default}\nspec: {}", `metadata.name: Invalid value: "h": field is immutable`},
	} {
		compare(t, c.old+" -> "+c.fields, texts(kind.Update.Validate(gadget(t, c.fields), gadget(t, c.old))), c.want)
	}
	scaled := kindOfVersion(t, parts).Update
	compare(t, "replicas", texts(scaled.Validate(gadget(t, "spec: {free: {count: -1}}"), gadget(t, ""))), ".spec.free.count: Invalid value: -1: should be a non-negative integer")
	if !kind.ConditionalUpdate {
		t.Error("a PUT without a resourceVersion is accepted")
	}
}

// TestStatusValidation checks that a write of the status is judged by the schema of the status.
func TestStatusValidation(t *testing.T) {
	kind := kindOfVersion(t, "subresources: {status: {}}, "+ruled)
	for _, c := range []struct{ old, fields, want string }{
		{"spec: {size: huge}", "spec: {size: huge}\nstatus: {seen: 1}", ""},
		{"spec: {}", "spec: {}\nstatus: {seen: 11}", "status.seen: Invalid value: 11: seen in body should be less than or equal to 10"},
		{"spec: {}\nstatus: {seen: 11}", "spec: {}\nstatus: {seen: 11, more: 1}", ""},
		{"spec: {}", "spec: {}\nstatus: {seen: 5}", "status.seen: Invalid value: 5: failed rule: self != 5"},
		{"spec: {}", "spec: {}\nstatus: {set: [a, a]}", `status.set[1]: Duplicate value: "a"`},
		{"spec: {}", "spec: {}", ""},
	} {
		compare(t, c.old+" -> "+c.fields, texts(kind.Subresources["status"].Validate(gadget(t, c.fields), gadget(t, c.old))), c.want)
	}
	scaled := kindOfVersion(t, parts).Subresources["status"]
	compare(t, "replicas", texts(scaled.Validate(gadget(t, "spec: {free: {count: -1}}\nstatus: {count: -1}"), gadget(t, ""))), ".status.count: Invalid value: -1: should be a non-negative integer")
}

// compare compares errors with a text in which " | " separates them, and of which "..." is any end of one.
func compare(t *testing.T, name string, got []string, want string) {
	t.Helper()
	var wanted []string
	if want != "" {
		wanted = strings.Split(want, " | ")
	}
	if !slices.EqualFunc(got, wanted, func(text, want string) bool {
		begin, open := strings.CutSuffix(want, "...")
		return text == want || open && strings.HasPrefix(text, begin)
	}) {
		t.Errorf("%s:\ngot  %s\nwant %s", name, strings.Join(got, " | "), want)
	}
}
