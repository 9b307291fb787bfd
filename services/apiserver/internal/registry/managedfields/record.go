package managedfields

import (
	"bytes"
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/garboard/garboard/libs/scheme"
)

// Writer is the name of a writer: the one that a request gives, or else the beginning of its user
// agent, as far as it can be shown; "unknown" if that is nothing.
func Writer(given, userAgent string) string {
	if given != "" {
		return given
	}
	program, _, _ := strings.Cut(userAgent, "/")
	var kept strings.Builder
	for _, r := range program {
		if !unicode.IsPrint(r) {
			continue
		}
		if kept.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		kept.WriteRune(r)
	}
	return cmp.Or(kept.String(), "unknown")
}

// KeepTimes gives obj the times of live's owners when it is otherwise as live is: an update that
// changes nothing but the times of its owners is none.
func KeepTimes(obj, live scheme.Object) {
	entries, before := obj.GetManagedFields(), live.GetManagedFields()
	if alike, moved := compare(entries, before); !alike || !moved {
		return
	}
	obj.SetManagedFields(before)
	if !same(obj, live) {
		obj.SetManagedFields(entries)
	}
}

// compare says whether two records are alike but for their times, and whether these differ.
func compare(entries, before []metav1.ManagedFieldsEntry) (alike, moved bool) {
	if len(entries) != len(before) {
		return false, false
	}
	for i := range entries {
		a, b := &entries[i], &before[i]
		if a.Manager != b.Manager || a.Operation != b.Operation || a.APIVersion != b.APIVersion ||
			a.Subresource != b.Subresource || a.FieldsType != b.FieldsType || !sameFields(a.FieldsV1, b.FieldsV1) {
			return false, false
		}
		moved = moved || !a.Time.Equal(b.Time)
	}
	return true, moved
}

func sameFields(a, b *metav1.FieldsV1) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.GetRawBytes(), b.GetRawBytes())
}

// Check says what is wrong with a record, which no longer counts then.
func Check(entries []metav1.ManagedFieldsEntry) error {
	return managedfields.ValidateManagedFields(entries)
}
