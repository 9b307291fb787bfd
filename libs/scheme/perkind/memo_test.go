package perkind_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/scheme/perkind"
)

// TestMemo: what was made of a kind stays until the table changes; nil does not stay.
func TestMemo(t *testing.T) {
	table, made, none := scheme.New(), 0, true
	memo := perkind.NewMemo(table, func(*scheme.Kind) *int {
		made++
		if none {
			return nil
		}
		return new(int)
	})
	pod := scheme.For[*corev1.Pod](table)
	if memo.Of(nil) != nil || memo.Of(pod) != nil || made != 1 {
		t.Fatalf("without anything, it was made %d times", made)
	}
	none = false
	first := memo.Of(pod)
	if first == nil || memo.Of(pod) != first || made != 2 {
		t.Fatalf("got %v, made %d times", first, made)
	}
	if err := table.Replace(nil, nil); err != nil {
		t.Fatal(err)
	}
	if memo.Of(pod) == first || made != 3 {
		t.Errorf("after a change it was made %d times", made)
	}
}
