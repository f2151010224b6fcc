package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// An etcdClient sends requests to etcd's JSON gateway. It does not use etcd's client library, because that is part of
// what is tested, and because users who import a store would download it with the store's tests.
type etcdClient struct {
	tls            *tls.Config // nil for plain HTTP
	user, password string      // an empty user sends no credentials
}

// do sends one request to the first server of addrs that accepts it. It decodes the reply into reply, unless that is
// nil. Each server gets an equal share of etcdPatience.
func (c etcdClient) do(ctx context.Context, addrs []string, path string, request, reply any) error {
	const etcdPatience = 2 * time.Second
	var errs []error
	for _, addr := range addrs {
		share, cancel := context.WithTimeout(ctx, etcdPatience/time.Duration(len(addrs)))
		err := c.doOn(share, addr, path, request, reply)
		cancel()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// doOn logs in, if the client has a user, and sends one request.
func (c etcdClient) doOn(ctx context.Context, addr, path string, request, reply any) error {
	token := ""
	if c.user != "" {
		var login struct{ Token string }
		err := c.post(ctx, addr, "/v3/auth/authenticate", "", map[string]string{"name": c.user, "password": c.password},
			&login)
		if err != nil {
			return err
		}
		token = login.Token
	}
	return c.post(ctx, addr, path, token, request, reply)
}

func (c etcdClient) post(ctx context.Context, addr, path, token string, request, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	scheme := "http://"
	if c.tls != nil {
		scheme = "https://"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+addr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: c.tls, DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, response.Status, strings.TrimSpace(string(text)))
	}
	if reply == nil {
		return nil
	}
	return json.Unmarshal(text, reply)
}

// read sends a linearizable read, which needs a majority of the cluster.
func (c etcdClient) read(ctx context.Context, addr string) error {
	return c.do(ctx, []string{addr}, "/v3/kv/range", map[string]any{"key": []byte("anylock-ready"), "count_only": true},
		nil)
}

// An etcdMemberList is a server's list of the members of its cluster. Member IDs are decimal text.
type etcdMemberList struct {
	Header struct {
		MemberID string `json:"member_id"` // of the server that replied
	}
	Members []struct {
		ID, Name string
		PeerURLs []string
	}
}

func (c etcdClient) members(ctx context.Context, addrs ...string) (list etcdMemberList, err error) {
	err = c.do(ctx, addrs, "/v3/cluster/member/list", struct{}{}, &list)
	return list, err
}
