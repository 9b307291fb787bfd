package managedfields

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// looseStates are states of an object of a custom kind, with all kinds of records.
func looseStates(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	const head = `{"apiVersion": "example.com/v1", "kind": "Gadget", "spec": {"size": 1}, "metadata": {"name": "a", "uid": "u"`
	entry := func(manager, time, fields string) string {
		return `{"manager": "` + manager + `", "operation": "Update", "apiVersion": "example.com/v1", "time": "` + time + `", "fieldsType": "FieldsV1", "fieldsV1": ` + fields + `}`
	}
	const early, late, one, other = "2026-11-23T10:00:00Z", "2026-11-23T11:00:00Z", `{"f:spec": {"f:size": {}}}`, `{"f:spec": {"f:color": {}}}`
	var states []*unstructured.Unstructured
	for _, text := range []string{
		head + `}}`,
		head + `, "resourceVersion": "7"}}`,
		head + `, "labels": {"a": "b"}}}`,
		head + `, "managedFields": []}}`,
		head + `, "managedFields": "x"}}`,
		head + `, "managedFields": [{}]}}`,
		head + `, "managedFields": ["x"]}}`,
		head + `, "managedFields": [{"manager": 7}]}}`,
		head + `, "managedFields": [{"manager": "m", "time": {}}]}}`,
		head + `, "managedFields": [{"manager": "m", "time": "x"}]}}`,
		head + `, "managedFields": [{"manager": "m", "fieldsV1": []}]}}`,
		head + `, "managedFields": [{"manager": "m", "other": "x"}]}}`,
		head + `, "managedFields": [{"manager": "m", "time": null}]}}`,
		head + `, "managedFields": [` + entry("m", early, one) + `]}}`,
		head + `, "managedFields": [` + entry("m", late, one) + `]}}`,
		head + `, "managedFields": [` + entry("m", late, one) + `], "resourceVersion": "7"}}`,
		head + `, "managedFields": [` + entry("m", late, other) + `]}}`,
		head + `, "managedFields": [` + entry("n", early, one) + `]}}`,
		head + `, "managedFields": [` + entry("m", early, one) + `, ` + entry("n", early, other) + `]}}`,
		head + `, "managedFields": [` + entry("m", early, one) + `, ` + entry("n", late, other) + `], "labels": {"a": "b"}}}`,
		`{"apiVersion": "example.com/v1", "kind": "Gadget", "spec": {"size": 2}, "metadata": {"name": "a", "uid": "u", "managedFields": [` + entry("m", late, one) + `]}}`,
		`{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}}`,
		`{"apiVersion": "example.com/v1", "kind": "Gadget"}`,
	} {
		state := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &state.Object); err != nil {
			t.Fatal(err)
		}
		states = append(states, state)
	}
	return states
}

// keepTimesDecoded is KeepTimes as it is for objects with a Go type.
func keepTimesDecoded(obj, live *unstructured.Unstructured) {
	entries, before := obj.GetManagedFields(), live.GetManagedFields()
	if alike, moved := compare(entries, before); !alike || !moved {
		return
	}
	obj.SetManagedFields(before)
	if !same(obj, live) {
		obj.SetManagedFields(entries)
	}
}

// unchangedDecoded is unchanged as it is for objects with a Go type.
func unchangedDecoded(obj, live *unstructured.Unstructured) bool {
	owners := obj.GetManagedFields()
	if live.GetUID() == "" {
		return false
	}
	if alike, moved := compare(owners, live.GetManagedFields()); owners != nil && (!alike || moved) {
		return false
	}
	obj.SetManagedFields(live.GetManagedFields())
	obj.SetResourceVersion(live.GetResourceVersion())
	return same(obj, live)
}

// TestRecordsOfObjectsWithoutAType: what is done without decoding the records has the same result as with it.
func TestRecordsOfObjectsWithoutAType(t *testing.T) {
	kept, same := 0, 0
	for i, live := range looseStates(t) {
		for j, obj := range looseStates(t) {
			want, got := obj.DeepCopy(), obj.DeepCopy()
			keepTimesDecoded(want, live)
			KeepTimes(got, live)
			if !reflect.DeepEqual(got.GetManagedFields(), want.GetManagedFields()) {
				t.Errorf("%d in place of %d keeps %v, want %v", j, i, got.GetManagedFields(), want.GetManagedFields())
			}
			if !reflect.DeepEqual(got, obj) {
				kept++
			}
			is := unchanged(got, live)
			if is != unchangedDecoded(want, live) {
				t.Errorf("%d in place of %d is unchanged: %t", j, i, is)
			}
			if is {
				same++
			}
		}
	}
	if kept == 0 || same == 0 {
		t.Errorf("times were kept %d times, and objects unchanged %d times", kept, same)
	}
}

// TestRecordIsRestored: a record that is restored is the former one, and the states share nothing.
func TestRecordIsRestored(t *testing.T) {
	for i, before := range looseStates(t) {
		for j, obj := range looseStates(t) {
			if _, ok := obj.Object["metadata"]; !ok {
				continue
			}
			record := RecordOf(before)
			if !record.Unchanged(before) {
				t.Errorf("%d is not unchanged", i)
			}
			record.copied().Restore(obj)
			if got, want := obj.GetManagedFields(), before.GetManagedFields(); !reflect.DeepEqual(got, want) {
				t.Errorf("%d has the record %v of %d, want %v", j, got, i, want)
			}
		}
	}
}
