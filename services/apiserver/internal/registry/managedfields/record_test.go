package managedfields_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// entry returns what a manager of a ConfigMap wrote at a minute.
func entry(manager string, minute int) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{".":{},"f:a":{}}}`), Time: new(metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))),
	}
}

func owned(entries ...metav1.ManagedFieldsEntry) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u", ManagedFields: entries}, Data: map[string]string{"a": "b"}}
}

func TestKeepTimes(t *testing.T) {
	changed := owned(entry("me", 2))
	changed.Data["a"] = "c"
	faceless := entry("me", 2)
	faceless.FieldsV1 = nil
	for name, tc := range map[string]struct {
		obj, live *corev1.ConfigMap
		want      int // the minute of the first entry
	}{
		"only the time":      {owned(entry("me", 2)), owned(entry("me", 1)), 1},
		"the data, too":      {changed, owned(entry("me", 1)), 2},
		"another owner":      {owned(entry("you", 2)), owned(entry("me", 1)), 2},
		"one more owner":     {owned(entry("me", 2), entry("you", 2)), owned(entry("me", 1)), 2},
		"an entry of no use": {owned(faceless), owned(entry("me", 1)), 2},
		"the same time":      {owned(entry("me", 1)), owned(entry("me", 1)), 1},
		"the second's time":  {owned(entry("me", 1), entry("you", 2)), owned(entry("me", 1), entry("you", 1)), 1},
	} {
		managedfields.KeepTimes(tc.obj, tc.live)
		if got := tc.obj.ManagedFields[0].Time.Minute(); got != tc.want {
			t.Errorf("%s: the time is that of minute %d, want %d", name, got, tc.want)
		}
		if i := len(tc.obj.ManagedFields) - 1; name == "the second's time" && tc.obj.ManagedFields[i].Time.Minute() != 1 {
			t.Errorf("%s: it has not been restored", name)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*metav1.ManagedFieldsEntry)
		want   string // part of the error; empty for none
	}{
		"good":          {func(*metav1.ManagedFieldsEntry) {}, ""},
		"operation":     {func(e *metav1.ManagedFieldsEntry) { e.Operation = "Delete" }, "operation must be"},
		"no operation":  {func(e *metav1.ManagedFieldsEntry) { e.Operation = "" }, "operation"},
		"fields":        {func(e *metav1.ManagedFieldsEntry) { e.FieldsV1 = metav1.NewFieldsV1("{") }, "error decoding"},
		"odd path":      {func(e *metav1.ManagedFieldsEntry) { e.FieldsV1 = metav1.NewFieldsV1(`{"data":{}}`) }, "data"},
		"type":          {func(e *metav1.ManagedFieldsEntry) { e.FieldsType = "FieldsV2" }, "FieldsV2"},
		"without owner": {func(e *metav1.ManagedFieldsEntry) { e.Manager = "" }, ""},
	} {
		e := entry("me", 1)
		tc.change(&e)
		err := managedfields.Check([]metav1.ManagedFieldsEntry{entry("other", 1), e})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestUpdateOfRecords updates an object of "me" as "you", with what the client sent as its record.
func TestUpdateOfRecords(t *testing.T) {
	table := scheme.New()
	owners, kind := managedfields.New(managedfields.Config{Table: table}), scheme.For[*corev1.ConfigMap](table)
	faulty := entry("faulty", 2)
	faulty.Operation = "Delete"
	for name, tc := range map[string]struct {
		sent []metav1.ManagedFieldsEntry
		data string
		want []string
	}{
		"nothing changed":            {nil, "b", []string{"me"}},
		"nothing but the time":       {[]metav1.ManagedFieldsEntry{entry("me", 2)}, "b", []string{"me"}},
		"data":                       {nil, "c", []string{"me", "you"}},
		"another record":             {[]metav1.ManagedFieldsEntry{entry("other", 2)}, "b", []string{"other"}},
		"an end of the record":       {[]metav1.ManagedFieldsEntry{}, "b", nil},
		"an empty entry":             {[]metav1.ManagedFieldsEntry{{}}, "b", nil},
		"a faulty record":            {[]metav1.ManagedFieldsEntry{faulty}, "b", []string{"me"}},
		"a faulty record, with data": {[]metav1.ManagedFieldsEntry{faulty}, "c", []string{"me", "you"}},
	} {
		obj := owned(tc.sent...)
		obj.ManagedFields = tc.sent
		obj.Data["a"] = tc.data
		live := owned(entry("me", 1))
		live.SetGroupVersionKind(kind.GroupVersionKind)
		owners.Update(kind, "", live, obj, "you")
		var got []string
		for _, e := range obj.ManagedFields {
			got = append(got, e.Manager)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: owned by %q, want %q", name, got, tc.want)
		}
	}
}

// TestUpdateOfAnUnknownKind: a record that cannot be updated stays, and does not block the write.
func TestUpdateOfAnUnknownKind(t *testing.T) {
	var log bytes.Buffer
	owners := managedfields.New(managedfields.Config{Table: scheme.New(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	obj := owned(entry("you", 2))
	obj.Data["a"] = "c"
	owners.Update(&scheme.Kind{GroupVersionKind: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Rocket"}}, "", owned(entry("me", 1)), obj, "you")
	if len(obj.ManagedFields) != 1 || obj.ManagedFields[0].Manager != "me" {
		t.Errorf("owned by %+v", obj.ManagedFields)
	}
	if !strings.Contains(log.String(), "failed to update the owners of an object's fields") || !strings.Contains(log.String(), "Rocket") {
		t.Errorf("logged %q", &log)
	}
}
