package fabric_test

import (
	"testing"

	"github.com/garboard/garboard/libs/fabric"
)

func TestJudge(t *testing.T) {
	own := fabric.History{Created: 2, Nonce: 2}
	older, newer := fabric.History{Created: 2, Nonce: 1}, fabric.History{Created: 3, Nonce: 1}
	at := fabric.Position{History: own, Revision: 10}
	for _, tc := range []struct {
		of             fabric.History
		prev, revision int64
		want           fabric.Verdict
	}{
		{own, 8, 10, fabric.Known},
		{own, 8, 9, fabric.Known},
		{own, fabric.Always, 10, fabric.Known},
		{own, 10, 11, fabric.Next},
		{own, 3, 11, fabric.Next},
		{own, 10, 20, fabric.Next},
		{own, fabric.Always, 11, fabric.Next},
		{own, 11, 12, fabric.Beyond},
		{own, 11, 20, fabric.Beyond},
		{older, 10, 11, fabric.Known},
		{older, fabric.Always, 99, fabric.Known},
		{newer, 10, 11, fabric.Beyond},
		{newer, 3, 5, fabric.Beyond},
		{newer, fabric.Always, 5, fabric.Beyond},
	} {
		if got := at.Judge(tc.of, tc.prev, tc.revision); got != tc.want {
			t.Errorf("(%d, %d] of %v at %v: got %d, want %d", tc.prev, tc.revision, tc.of, at, got, tc.want)
		}
	}
}
