package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/libs/report"
)

// memberPatience bounds one query of Status.
const memberPatience = 3 * time.Second

// Status reports the state of the cluster, without its name and its publisher. It takes a few
// seconds at most, and reports the members that do not answer.
func (c *Connection) Status(ctx context.Context) report.Etcd {
	var found report.Etcd
	ctx, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	endpoints := c.Client.Endpoints()
	asked := make([]report.Member, len(endpoints))
	var listed *clientv3.MemberListResponse
	var together sync.WaitGroup
	together.Go(func() {
		began := time.Now()
		resp, err := c.Client.Get(ctx, c.prefix, clientv3.WithCountOnly())
		found.Seconds = time.Since(began).Seconds()
		if err != nil {
			found.Fault = fmt.Sprintf("etcd at %s does not answer a linearizable read: %v", strings.Join(endpoints, ", "), err)
			return
		}
		found.Revision = resp.Header.Revision
	})
	together.Go(func() {
		// Without an answer, report the members that were queried.
		listed, _ = c.Client.MemberList(ctx)
	})
	var alarms *clientv3.AlarmResponse
	together.Go(func() {
		// The read above detects an etcd that does not answer.
		alarms, _ = c.Client.AlarmList(ctx)
	})
	for i, endpoint := range endpoints {
		together.Go(func() { asked[i] = c.memberAt(ctx, endpoint) })
	}
	together.Wait()
	found.Members = members(asked, listed)
	if alarms != nil {
		for _, alarm := range alarms.Alarms {
			found.Alarms = append(found.Alarms, report.Alarm{Member: nameOf(fmt.Sprintf("%x", alarm.MemberID), found.Members), Alarm: alarm.Alarm.String()})
		}
	}
	return found
}

func (c *Connection) memberAt(ctx context.Context, endpoint string) report.Member {
	began := time.Now()
	status, err := c.Client.Status(ctx, endpoint)
	m := report.Member{Endpoint: endpoint, Seconds: time.Since(began).Seconds()}
	if err != nil {
		m.Fault = err.Error()
		return m
	}
	m.ID = fmt.Sprintf("%x", status.Header.MemberId)
	m.Version, m.Learner = status.Version, status.IsLearner
	m.Leader = status.Leader != 0 && status.Leader == status.Header.MemberId
	m.Size, m.InUse, m.Quota = status.DbSize, status.DbSizeInUse, status.DbSizeQuota
	m.Errors = status.Errors
	if status.RaftIndex > status.RaftAppliedIndex {
		m.Unapplied = status.RaftIndex - status.RaftAppliedIndex
	}
	return m
}

// members returns the queried members, each once and with its name, and those that could not be
// queried because no endpoint leads to them.
func members(asked []report.Member, listed *clientv3.MemberListResponse) []report.Member {
	var all []report.Member
	byID := map[string]bool{}
	for _, m := range asked {
		if m.ID != "" && byID[m.ID] {
			continue // two endpoints lead to it
		}
		byID[m.ID] = true
		all = append(all, m)
	}
	if listed == nil {
		return all
	}
	for _, l := range listed.Members {
		id := fmt.Sprintf("%x", l.ID)
		known := false
		for i := range all {
			if all[i].ID == id || all[i].ID == "" && hasURL(l.ClientURLs, all[i].Endpoint) {
				all[i].ID, all[i].Name, known = id, l.Name, true
			}
		}
		if !known {
			all = append(all, report.Member{ID: id, Name: l.Name, Learner: l.IsLearner})
		}
	}
	return all
}

func hasURL(urls []string, endpoint string) bool {
	for _, u := range urls {
		if strings.TrimSuffix(u, "/") == strings.TrimSuffix(endpoint, "/") {
			return true
		}
	}
	return false
}

func nameOf(id string, members []report.Member) string {
	for _, m := range members {
		if m.ID == id && m.Name != "" {
			return m.Name
		}
	}
	return id
}
