package kinds_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// TestOf checks that each function of a definition calls the function of the kind's own type, with
// its arguments in order.
func TestOf(t *testing.T) {
	var called []string
	note := func(name string) func(*corev1.ConfigMap) {
		return func(c *corev1.ConfigMap) { called = append(called, name+" "+c.Name) }
	}
	errs := func(name string) field.ErrorList { return field.ErrorList{field.Required(field.NewPath(name), "")} }
	change := func(name string) kinds.ChangeOf[*corev1.ConfigMap] {
		return kinds.ChangeOf[*corev1.ConfigMap]{
			Prepare:  func(c, old *corev1.ConfigMap) { called = append(called, name+" "+c.Name+" "+old.Name) },
			Validate: func(c, old *corev1.ConfigMap) field.ErrorList { return errs(name + c.Name + old.Name) },
		}
	}
	d := kinds.Of[*corev1.ConfigMap]{
		Default: note("default"), Create: note("create"), Canonicalize: note("canonicalize"), Terminating: note("terminating"),
		Author:   func(c *corev1.ConfigMap, user authn.User) { called = append(called, "author "+c.Name+" "+user.Name) },
		Validate: func(c *corev1.ConfigMap) field.ErrorList { return errs("validate" + c.Name) },
		Update:   change("update"), Subresources: map[string]kinds.ChangeOf[*corev1.ConfigMap]{"part": change("part")},
		Warnings:         func(c *corev1.ConfigMap) []string { return []string{"warns of " + c.Name} },
		CreationWarnings: func(c *corev1.ConfigMap) []string { return []string{"warns of new " + c.Name} },
		Fields:           func(c *corev1.ConfigMap) fields.Set { return fields.Set{"f": c.Name} },
		Grace:            func(c *corev1.ConfigMap, opts *metav1.DeleteOptions) *int64 { return opts.GracePeriodSeconds },
		Held:             func(c *corev1.ConfigMap) bool { return c.Name == "a" },
		FieldLabels:      []string{"f"}, AllowCreateOnUpdate: true, ConditionalUpdate: true, Obeyed: true, ReturnDeleted: true,
	}.Definition()
	a, b := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	d.Default(a)
	d.PrepareForCreate(a)
	d.Canonicalize(a)
	d.Terminating(a)
	d.Author(a, authn.User{Name: "u"})
	d.Update.Prepare(a, b)
	d.Subresources["part"].Prepare(a, b)
	if diff := cmp.Diff([]string{"default a", "create a", "canonicalize a", "terminating a", "author a u", "update a b", "part a b"}, called); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for want, got := range map[string]field.ErrorList{
		"validatea": d.Validate(a), "updateab": d.Update.Validate(a, b), "partab": d.Subresources["part"].Validate(a, b),
	} {
		if len(got) != 1 || got[0].Field != want {
			t.Errorf("got %v, want an error in %s", got, want)
		}
	}
	if got := append(d.Warnings(a), d.CreationWarnings(b)...); !cmp.Equal(got, []string{"warns of a", "warns of new b"}) {
		t.Errorf("got the warnings %q", got)
	}
	if got := *d.Grace(a, &metav1.DeleteOptions{GracePeriodSeconds: new(int64(7))}); got != 7 {
		t.Errorf("got a grace of %d s, want 7", got)
	}
	if d.Fields(a)["f"] != "a" || !d.Held(a) || d.Held(b) {
		t.Errorf("got fields %v, held %t and %t", d.Fields(a), d.Held(a), d.Held(b))
	}
	if d.Level != kinds.Generic || !d.AllowCreateOnUpdate || !d.ConditionalUpdate || !d.Obeyed || !d.ReturnDeleted || d.FieldLabels[0] != "f" {
		t.Errorf("got %+v", d)
	}
}

// TestOfNothing checks that what a kind does not define is nil, which generic code understands.
func TestOfNothing(t *testing.T) {
	d := kinds.Of[*corev1.ConfigMap]{Level: kinds.Full}.Definition()
	if d.Default != nil || d.PrepareForCreate != nil || d.Author != nil || d.Validate != nil || d.Canonicalize != nil || d.Update.Prepare != nil ||
		d.Update.Validate != nil || d.Warnings != nil || d.CreationWarnings != nil || d.Fields != nil || d.Grace != nil || d.Held != nil || d.Terminating != nil {
		t.Errorf("got %+v", d)
	}
	if d.Level != kinds.Full || d.AllowCreateOnUpdate || d.ConditionalUpdate || d.Obeyed || d.ReturnDeleted {
		t.Errorf("got %+v", d)
	}
}
