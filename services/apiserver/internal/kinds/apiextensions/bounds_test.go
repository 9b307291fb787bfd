package apiextensions

import (
	"fmt"
	"strings"
	"testing"
)

// TestBounds checks that a definition that would take much memory is refused before anything compiles it,
// and that one that is stored stays.
func TestBounds(t *testing.T) {
	schema := func(properties string) string {
		return "{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {" + properties + "}}}}"
	}
	repeat := func(times int, property string) string {
		var all strings.Builder
		for i := range times {
			fmt.Fprintf(&all, "p%d: %s, ", i, property)
		}
		return all.String()
	}
	const (
		rules    = "spec.versions: Invalid value: must have at most 2000 x-kubernetes-validations in all schemas together"
		compiled = "spec.versions: Invalid value: the regular expressions of all schemas and rules must not compile to more than 200000 instructions together"
	)
	large := strings.Repeat("abcdefghij", 21)
	kind := CustomResourceDefinition()
	for name, c := range map[string]struct{ versions, want string }{
		"patterns as others write them": {schema(repeat(50, `{type: string, pattern: "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}`)), ""},
		"a large pattern":               {schema(`a: {type: string, pattern: "(?:` + large + `){1000}"}`), compiled},
		"a large pattern in a rule":     {schema(`a: {type: string, x-kubernetes-validations: [{rule: "self.matches('(?:` + large + `){1000}')"}]}`), compiled},
		"a large pattern in a message": {schema(`a: {type: string, x-kubernetes-validations: [{rule: "true", messageExpression: "'a'.find('(?:` + large + `){1000}')"}]}`),
			compiled},
		"many patterns": {schema(repeat(250, `{type: string, pattern: "a{1000}"}`)), compiled},
		"many rules":    {schema(repeat(2001, `{type: string, x-kubernetes-validations: [{rule: "true"}]}`)), rules},
		"many rules in equal versions": {schema(repeat(1001, `{type: string, x-kubernetes-validations: [{rule: "true"}]}`)) + ", " +
			strings.NewReplacer("v1", "v2", "storage: true", "storage: false").Replace(schema(repeat(1001, `{type: string, x-kubernetes-validations: [{rule: "true"}]}`))), rules},
		"many rules in versions": {schema(repeat(1001, `{type: string, x-kubernetes-validations: [{rule: "true"}]}`)) + ", " +
			strings.NewReplacer("v1", "v2", "storage: true", "storage: false").Replace(schema(repeat(1002, `{type: string, x-kubernetes-validations: [{rule: "true"}]}`))), rules},
	} {
		made, fine := define(t, c.versions), define(t, version)
		for way, errs := range map[string]string{
			"create": fmt.Sprint(kind.Validate(made).ToAggregate()), "update": fmt.Sprint(kind.Update.Validate(made, fine).ToAggregate()),
		} {
			if c.want == "" && errs != "<nil>" || c.want != "" && errs != c.want {
				t.Errorf("%s: %s gives %.300s, want %q", name, way, errs, c.want)
			}
		}
	}
	stored := define(t, schema(repeat(2001, `{type: string}`)+`a: {type: string, pattern: "(?:`+large+`){1000}"}`))
	if errs := kind.Update.Validate(stored.DeepCopy(), stored); len(errs) > 0 {
		t.Errorf("a stored definition is refused: %v", errs.ToAggregate())
	}
}

// TestPanickingRules checks that a definition on which a rule of Kubernetes panics is invalid.
func TestPanickingRules(t *testing.T) {
	kind, fine := CustomResourceDefinition(), define(t, version)
	bad := define(t, "{name: v1, served: true, storage: true, schema: {}, selectableFields: [{jsonPath: .a}]}")
	const want = "spec: Invalid value: cannot be validated: "
	if errs := kind.Validate(bad); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) {
		t.Errorf("created: got %v", errs.ToAggregate())
	}
	if errs := kind.Update.Validate(bad, fine); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) {
		t.Errorf("updated: got %v", errs.ToAggregate())
	}
}
