package proxy

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/healthcheck"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/rules"
)

// sync compiles the Services that have changed and writes the difference.
func (p *Proxy) sync() {
	start := time.Now()
	taken, all := p.pending.take()
	names := slices.Collect(maps.Keys(taken))
	if p.everything || all {
		names = p.allNames()
	}
	due := slices.ContainsFunc(p.tables, (*table).repairDue)
	if len(names) == 0 && !p.skeleton && !due {
		return
	}
	p.everything = false
	changes := make([][]*ruleset.Change, len(p.tables))
	add := func(i int, change *ruleset.Change) {
		// A repair compares with all that is wanted. At the start the changes would need more memory than that.
		if !change.IsEmpty() && !p.tables[i].repairDue() {
			changes[i] = append(changes[i], change)
		}
	}
	if p.skeleton {
		p.skeleton = false
		for i, t := range p.tables {
			add(i, t.wanted.SetSkeleton(rules.Skeleton(t.family, p.node)))
		}
	}
	for _, name := range names {
		for i, change := range p.compile(name) {
			add(i, change)
		}
	}
	ok := true
	for i, t := range p.tables {
		ok = p.write(t, changes[i], start, taken) && ok
	}
	p.lastSync = time.Now()
	if ok {
		p.readyOnce.Do(func() { close(p.ready) })
	}
}

// write brings the table of one family up to date and reports whether it is.
func (p *Proxy) write(t *table, changes []*ruleset.Change, start time.Time, taken map[types.NamespacedName]*change) bool {
	repaired := t.broken && t.repairDue()
	var err error
	if repaired {
		// The changes are part of what is wanted.
		err = t.repair()
	} else if err = t.apply(changes); err != nil && t.repairDue() {
		t.logger.Error("changes are not written yet; all rules are compared", "err", err)
		repaired, err = true, t.repair()
	}
	family := t.family.String()
	p.metrics.synced(t.family, start, repaired)
	p.metrics.noLocal.WithLabelValues("internal", family).Set(float64(t.noInternal))
	p.metrics.noLocal.WithLabelValues("external", family).Set(float64(t.noExternal))
	if err != nil {
		t.logger.Error("some rules are not written", "err", err, "retry", repairPeriod.String())
	}
	if t.broken {
		p.health.Queued(t.family)
		return false
	}
	p.health.Updated(t.family)
	p.metrics.lastSync.WithLabelValues(family).Set(seconds(time.Now()))
	for _, c := range taken {
		for _, trigger := range c.triggers {
			p.metrics.programming.WithLabelValues(family).Observe(time.Since(trigger).Seconds())
		}
	}
	return true
}

// allNames returns the names of all Services, and of those that have rules.
func (p *Proxy) allNames() []types.NamespacedName {
	names := make(map[types.NamespacedName]bool)
	for _, s := range p.services.Indexer().List() {
		names[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = true
	}
	for _, t := range p.tables {
		for _, owner := range t.wanted.Owners() {
			names[owner] = true
		}
	}
	return slices.Collect(maps.Keys(names))
}

// compile returns the differences that a Service makes, one for each table.
func (p *Proxy) compile(name types.NamespacedName) []*ruleset.Change {
	service, err := p.services.Lister().Namespace(name.Namespace).Get(name.Name)
	exists := err == nil && rules.Proxied(service)
	var endpointSlices []*discoveryv1.EndpointSlice
	if exists {
		// The error is that of an unknown index.
		endpointSlices, _ = p.slices.Indexer().ByIndex(slicesOfService, name.String())
	} else {
		service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	}
	var refused []rules.Refusal
	port := healthcheck.Service{}
	changes := make([]*ruleset.Change, len(p.tables))
	for i, t := range p.tables {
		unit, refusals := rules.Compile(t.family, p.node, service, endpointSlices, p.local[name])
		refused = append(refused, refusals...)
		var before *ruleset.Unit
		changes[i], before = t.put(&unit, exists)
		p.flows.changed(t.family, before, &unit)
		if unit.HealthPort != 0 {
			port.Port, port.Local = unit.HealthPort, max(port.Local, unit.LocalReady)
		}
	}
	p.portsDue = p.portsDue || p.ports[name] != port
	if port.Port != 0 {
		p.ports[name] = port
	} else {
		delete(p.ports, name)
	}
	p.report(name, service, endpointSlices, refused)
	return changes
}

// reportPeriod is the least time between two reports about a Service. What is refused in between is
// reported with the next change, so that a Service that flaps causes no flood of Events.
const reportPeriod = 10 * time.Second

// report is the last report about a Service.
type report struct {
	text string
	at   time.Time
}

// report records Events about what was refused, unless the last ones of the Service say the same.
func (p *Proxy) report(
	name types.NamespacedName, service *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, refused []rules.Refusal,
) {
	if len(refused) == 0 {
		if time.Since(p.refused[name].at) >= reportPeriod {
			delete(p.refused, name)
		}
		return
	}
	var text strings.Builder
	for _, r := range refused {
		text.WriteString(r.Slice + "\n" + r.Message + "\n")
	}
	last := p.refused[name]
	if last.text == text.String() || time.Since(last.at) < reportPeriod {
		return
	}
	p.refused[name] = report{text.String(), time.Now()}
	for _, r := range refused {
		at := slices.IndexFunc(endpointSlices, func(s *discoveryv1.EndpointSlice) bool { return s.Name == r.Slice })
		if at >= 0 {
			p.cfg.Events(endpointSlices[at], corev1.EventTypeWarning, r.Reason, r.Message)
		} else {
			p.cfg.Events(service, corev1.EventTypeWarning, r.Reason, r.Message)
		}
		p.cfg.Logger.Warn("a part of a service gets no rules", "namespace", name.Namespace, "name", name.Name, "reason", r.Reason, "message", r.Message)
	}
}

// same reports whether two units have the same UDP ports and endpoints.
func same(before, after *ruleset.Unit) bool {
	if before == nil {
		return len(after.Datagrams) == 0
	}
	return reflect.DeepEqual(before.Datagrams, after.Datagrams)
}
