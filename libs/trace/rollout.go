package trace

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Ref names an object.
type Ref struct{ Resource, Namespace, Name string }

// Rollout is the way of one change through the plane: the hops of its objects, in order.
type Rollout struct {
	// Hops are in order of time.
	Hops []Hop
}

// LatestRollout selects from hops those of root's latest rollout: every hop of root, and of the
// objects that derive from it. The rollout begins with the last write to root by a user outside
// system:, that is, not by a controller. The function follows reports whether an object derives
// from root.
func LatestRollout(hops []Hop, root Ref, follows func(Ref) bool) Rollout {
	hops = slices.Clone(hops)
	slices.SortStableFunc(hops, func(a, b Hop) int { return a.Time.Add(-a.Took).Compare(b.Time.Add(-b.Took)) })
	begin := -1
	for i, hop := range hops {
		if hop.ref() == root && hop.Step == Request && !strings.Contains(hop.Detail, "by system:") {
			begin = i
		}
	}
	if begin < 0 {
		begin = slices.IndexFunc(hops, func(hop Hop) bool { return hop.ref() == root })
	}
	if begin < 0 {
		return Rollout{}
	}
	started := hops[begin].Time.Add(-hops[begin].Took)
	var selected []Hop
	for _, hop := range hops {
		if hop.Time.Before(started) || (hop.ref() != root && !follows(hop.ref())) {
			continue
		}
		selected = append(selected, hop)
	}
	slices.SortStableFunc(selected, func(a, b Hop) int {
		if c := a.Time.Compare(b.Time); c != 0 {
			return c
		}
		return cmp.Compare(a.Revision, b.Revision)
	})
	return Rollout{Hops: selected}
}

func (h Hop) ref() Ref { return Ref{h.Resource, h.Namespace, h.Name} }

// Write prints the rollout as a table: when each hop ended, relative to the beginning of the
// rollout, and how long it took.
func (r Rollout) Write(w io.Writer) error {
	if len(r.Hops) == 0 {
		_, err := fmt.Fprintln(w, "no hops are recorded; they are kept in memory, so a restart forgets them")
		return err
	}
	started := r.Hops[0].Time
	for _, hop := range r.Hops {
		if begin := hop.Time.Add(-hop.Took); begin.Before(started) {
			started = begin
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, "AT\tTOOK\tSTEP\tREVISION\tBY\tOBJECT\tDETAIL"); err != nil {
		return err
	}
	for _, hop := range r.Hops {
		revision, took := "", ""
		if hop.Revision != 0 {
			revision = fmt.Sprint(hop.Revision)
		}
		if hop.Took != 0 {
			took = short(hop.Took)
		}
		if _, err := fmt.Fprintf(table, "+%s\t%s\t%s\t%s\t%s\t%s/%s\t%s\n", short(hop.Time.Sub(started)), took,
			hop.Step, revision, hop.Service, hop.Resource, hop.Name, hop.Detail); err != nil {
			return err
		}
	}
	return table.Flush()
}

// short formats a duration with about three digits.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
