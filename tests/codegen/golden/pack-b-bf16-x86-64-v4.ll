define internal void @pack_b(ptr noalias %to, ptr noalias readonly %from, i64 %from_ld, i64 %columns, i64 %steps) noinline nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" {
entry:
  %no_steps = icmp eq i64 %steps, 0
  br i1 %no_steps, label %exit, label %some
some:
  %rest = urem i64 %steps, 2
  %all_groups = icmp eq i64 %rest, 0
  %all_columns = icmp eq i64 %columns, 16
  %is_full = and i1 %all_groups, %all_columns
  br i1 %is_full, label %full, label %step
full:
  %u = phi i64 [ 0, %some ], [ %u_next, %full ]
  %from_full = phi ptr [ %from, %some ], [ %from_full2, %full ]
  %to_full = phi ptr [ %to, %some ], [ %to_full_next, %full ]
  %from_full1 = getelementptr i16, ptr %from_full, i64 %from_ld
  %from_full2 = getelementptr i16, ptr %from_full1, i64 %from_ld
  %full0_0_at = getelementptr i16, ptr %from_full, i64 0
  %full0_0 = load <16 x i16>, ptr %full0_0_at, align 2
  %full0_1_at = getelementptr i16, ptr %from_full1, i64 0
  %full0_1 = load <16 x i16>, ptr %full0_1_at, align 2
  %full0_0_or_zero = select i1 true, <16 x i16> %full0_0, <16 x i16> zeroinitializer
  %full0_0_wide = zext <16 x i16> %full0_0_or_zero to <16 x i32>
  %full0_0_moved = shl <16 x i32> %full0_0_wide, splat (i32 0)
  %full0_1_or_zero = select i1 true, <16 x i16> %full0_1, <16 x i16> zeroinitializer
  %full0_1_wide = zext <16 x i16> %full0_1_or_zero to <16 x i32>
  %full0_1_moved = shl <16 x i32> %full0_1_wide, splat (i32 16)
  %full0_1_total = or <16 x i32> %full0_0_moved, %full0_1_moved
  %full0_1_total_group = bitcast <16 x i32> %full0_1_total to <16 x float>
  %to_full_at0 = getelementptr float, ptr %to_full, i64 0
  store <16 x float> %full0_1_total_group, ptr %to_full_at0, align 4
  %to_full_next = getelementptr float, ptr %to_full, i64 16
  %u_next = add i64 %u, 2
  %u_test = icmp slt i64 %u_next, %steps
  br i1 %u_test, label %full, label %exit
step:
  %t = phi i64 [ 0, %some ], [ %t_next, %step_end ]
  %step_last = sub i64 %steps, 1
  %step0_requested = add i64 %t, 0
  %step0_exists = icmp slt i64 %step0_requested, %steps
  %step0 = call i64 @llvm.smin.i64(i64 %step0_requested, i64 %step_last)
  %from0_start = mul i64 %step0, %from_ld
  %from0 = getelementptr i16, ptr %from, i64 %from0_start
  %step1_requested = add i64 %t, 1
  %step1_exists = icmp slt i64 %step1_requested, %steps
  %step1 = call i64 @llvm.smin.i64(i64 %step1_requested, i64 %step_last)
  %from1_start = mul i64 %step1, %from_ld
  %from1 = getelementptr i16, ptr %from, i64 %from1_start
  %number = udiv i64 %t, 2
  %to_step_start = mul i64 %number, 16
  %to_step = getelementptr float, ptr %to, i64 %to_step_start
  br label %vector
vector:
  %j = phi i64 [ 0, %step ], [ %j_next, %vector ]
  %remaining = sub i64 %columns, %j
  %count = trunc i64 %remaining to i32
  %count_one = insertelement <16 x i32> poison, i32 %count, i32 0
  %count_all = shufflevector <16 x i32> %count_one, <16 x i32> poison, <16 x i32> zeroinitializer
  %mask = icmp ult <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>, %count_all
  %to_at = getelementptr float, ptr %to_step, i64 %j
  %value0_at = getelementptr i16, ptr %from0, i64 %j
  %value0 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr align 2 %value0_at, <16 x i1> %mask, <16 x i16> zeroinitializer)
  %value1_at = getelementptr i16, ptr %from1, i64 %j
  %value1 = call <16 x i16> @llvm.masked.load.v16i16.p0(ptr align 2 %value1_at, <16 x i1> %mask, <16 x i16> zeroinitializer)
  %value0_or_zero = select i1 %step0_exists, <16 x i16> %value0, <16 x i16> zeroinitializer
  %value0_wide = zext <16 x i16> %value0_or_zero to <16 x i32>
  %value0_moved = shl <16 x i32> %value0_wide, splat (i32 0)
  %value1_or_zero = select i1 %step1_exists, <16 x i16> %value1, <16 x i16> zeroinitializer
  %value1_wide = zext <16 x i16> %value1_or_zero to <16 x i32>
  %value1_moved = shl <16 x i32> %value1_wide, splat (i32 16)
  %value1_total = or <16 x i32> %value0_moved, %value1_moved
  %value1_total_group = bitcast <16 x i32> %value1_total to <16 x float>
  store <16 x float> %value1_total_group, ptr %to_at, align 4
  %j_next = add i64 %j, 16
  %j_test = icmp slt i64 %j_next, %columns
  br i1 %j_test, label %vector, label %step_end
step_end:
  %t_next = add i64 %t, 2
  %t_test = icmp slt i64 %t_next, %steps
  br i1 %t_test, label %step, label %exit
exit:
  ret void
}
