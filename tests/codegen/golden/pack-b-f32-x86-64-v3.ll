define internal void @pack_b(ptr noalias %to, ptr noalias readonly %from, i64 %from_ld, i64 %columns, i64 %steps) noinline nounwind {
entry:
  %no_steps = icmp eq i64 %steps, 0
  br i1 %no_steps, label %exit, label %some
some:
  %rest = urem i64 %steps, 1
  %all_groups = icmp eq i64 %rest, 0
  %all_columns = icmp eq i64 %columns, 8
  %is_full = and i1 %all_groups, %all_columns
  br i1 %is_full, label %full, label %step
full:
  %u = phi i64 [ 0, %some ], [ %u_next, %full ]
  %from_full = phi ptr [ %from, %some ], [ %from_full1, %full ]
  %to_full = phi ptr [ %to, %some ], [ %to_full_next, %full ]
  %from_full1 = getelementptr float, ptr %from_full, i64 %from_ld
  %full0_0_at = getelementptr float, ptr %from_full, i64 0
  %full0_0 = load <8 x float>, ptr %full0_0_at, align 4
  %to_full_at0 = getelementptr float, ptr %to_full, i64 0
  store <8 x float> %full0_0, ptr %to_full_at0, align 4
  %to_full_next = getelementptr float, ptr %to_full, i64 8
  %u_next = add i64 %u, 1
  %u_test = icmp slt i64 %u_next, %steps
  br i1 %u_test, label %full, label %exit
step:
  %t = phi i64 [ 0, %some ], [ %t_next, %step_end ]
  %step_last = sub i64 %steps, 1
  %step0_requested = add i64 %t, 0
  %step0_exists = icmp slt i64 %step0_requested, %steps
  %step0 = call i64 @llvm.smin.i64(i64 %step0_requested, i64 %step_last)
  %from0_start = mul i64 %step0, %from_ld
  %from0 = getelementptr float, ptr %from, i64 %from0_start
  %number = udiv i64 %t, 1
  %to_step_start = mul i64 %number, 8
  %to_step = getelementptr float, ptr %to, i64 %to_step_start
  br label %vector
vector:
  %j = phi i64 [ 0, %step ], [ %j_next, %vector ]
  %remaining = sub i64 %columns, %j
  %count = trunc i64 %remaining to i32
  %count_one = insertelement <8 x i32> poison, i32 %count, i32 0
  %count_all = shufflevector <8 x i32> %count_one, <8 x i32> poison, <8 x i32> zeroinitializer
  %mask = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %count_all
  %to_at = getelementptr float, ptr %to_step, i64 %j
  %value0_at = getelementptr float, ptr %from0, i64 %j
  %value0 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %value0_at, <8 x i1> %mask, <8 x float> zeroinitializer)
  store <8 x float> %value0, ptr %to_at, align 4
  %j_next = add i64 %j, 8
  %j_test = icmp slt i64 %j_next, %columns
  br i1 %j_test, label %vector, label %step_end
step_end:
  %t_next = add i64 %t, 1
  %t_test = icmp slt i64 %t_next, %steps
  br i1 %t_test, label %step, label %exit
exit:
  ret void
}
