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

// Writer returns the name of a writer: the given field manager, or else the printable part of the
// user agent's first segment; "unknown" if that is empty.
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

// KeepTimes restores the times of live's owners if obj otherwise equals live: an update that
// changes only the times of its owners changes nothing.
func KeepTimes(obj, live scheme.Object) {
	if metadata, before, ok := metadataOfBoth(obj, live); ok {
		if alike, moved := alikeLoose(metadata[ownersField], before[ownersField]); alike {
			if moved && sameLoose(obj, live, ownersField) {
				RecordOf(live).copied().Restore(obj)
			}
			return
		}
	}
	entries, before := obj.GetManagedFields(), live.GetManagedFields()
	if alike, moved := compare(entries, before); !alike || !moved {
		return
	}
	obj.SetManagedFields(before)
	if !same(obj, live) {
		obj.SetManagedFields(entries)
	}
}

// compare reports whether two records are alike apart from their times, and whether the times
// differ.
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

// Check returns what is wrong with a record; a faulty record does not count.
func Check(entries []metav1.ManagedFieldsEntry) error {
	return managedfields.ValidateManagedFields(entries)
}
